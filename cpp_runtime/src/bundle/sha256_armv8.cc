#if defined(__aarch64__)

#include <arm_neon.h>

#include "bundle/sha256.h"
#include "stage/cpu_features.h"

namespace edgepipe {
namespace {

__attribute__((target("+crypto"))) void add_blocks(Sha256State& state, const std::byte* blocks,
                                                   std::size_t count) {
  uint32x4_t abcd = vld1q_u32(state.data());
  uint32x4_t efgh = vld1q_u32(state.data() + 4);
  for (std::size_t index = 0; index < count; ++index) {
    const auto* const block =
        reinterpret_cast<const std::uint8_t*>(blocks + index * kSha256BlockBytes);
    const uint32x4_t abcd_before = abcd;
    const uint32x4_t efgh_before = efgh;
    uint32x4_t schedule[4];
    for (std::size_t four = 0; four < 16; ++four) {
      uint32x4_t& next = schedule[four % 4];
      if (four < 4) {
        next = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block + 16 * four)));
      } else {
        next = vsha256su1q_u32(vsha256su0q_u32(next, schedule[(four + 1) % 4]),
                               schedule[(four + 2) % 4], schedule[(four + 3) % 4]);
      }
      const uint32x4_t added = vaddq_u32(next, vld1q_u32(kSha256Constants.data() + 4 * four));
      const uint32x4_t abcd_now = abcd;
      abcd = vsha256hq_u32(abcd, efgh, added);
      efgh = vsha256h2q_u32(efgh, abcd_now, added);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state.data(), abcd);
  vst1q_u32(state.data() + 4, efgh);
}

}  // namespace

void add_armv8_sha256_kernel(std::vector<Sha256Kernel>& kernels) {
  if (has_cpu_feature("sha2")) kernels.push_back({"armv8", add_blocks});
}

}  // namespace edgepipe

#endif
