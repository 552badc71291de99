#if defined(__aarch64__)

#include <arm_neon.h>

#include "simulator/gemm_kernel.h"

namespace edgepipe {
namespace {

constexpr std::size_t kBlock = 16;

// inp: int16[batch][16]. wgt: int16[16 k][16 outputs], so that one multiply-add by an input lane
// updates four outputs. (Sums of int8 products in int16 would overflow at -128 * -128 * 2.)

void pack_wgt_transposed(const Accelerator& /*a*/, const std::int8_t* element, std::byte* packed) {
  for (std::size_t o = 0; o < kBlock; ++o) {
    for (std::size_t k = 0; k < kBlock; ++k) {
      put_int16(packed, k * kBlock + o, element[o * kBlock + k]);
    }
  }
}

/// Adds the products of four inputs and their weight rows to 16 sums.
inline void add_four(int32x4_t (&sums)[4], int16x4_t x, const std::int16_t* w) {
  const auto add_row = [&](auto multiply_add, const std::int16_t* row) {
    for (std::size_t n = 0; n < 4; ++n) sums[n] = multiply_add(sums[n], vld1_s16(row + 4 * n));
  };
  add_row([x](int32x4_t sum, int16x4_t v) { return vmlal_lane_s16(sum, v, x, 0); }, w);
  add_row([x](int32x4_t sum, int16x4_t v) { return vmlal_lane_s16(sum, v, x, 1); }, w + kBlock);
  add_row([x](int32x4_t sum, int16x4_t v) { return vmlal_lane_s16(sum, v, x, 2); }, w + 2 * kBlock);
  add_row([x](int32x4_t sum, int16x4_t v) { return vmlal_lane_s16(sum, v, x, 3); }, w + 3 * kBlock);
}

void run_neon(const GemmOperands& operands) {
  for_each_row(operands, kBlock * 2, kBlock * kBlock * 2,
               [](const std::byte* inp, const std::byte* wgt, std::int32_t* acc) {
                 const auto* x = reinterpret_cast<const std::int16_t*>(inp);
                 const auto* w = reinterpret_cast<const std::int16_t*>(wgt);
                 int32x4_t sums[4];
                 for (std::size_t n = 0; n < 4; ++n) sums[n] = vld1q_s32(acc + 4 * n);
                 for (std::size_t k = 0; k < kBlock; k += 4) {
                   add_four(sums, vld1_s16(x + k), w + k * kBlock);
                 }
                 for (std::size_t n = 0; n < 4; ++n) vst1q_s32(acc + 4 * n, sums[n]);
               });
}

}  // namespace

void add_neon_gemm_kernels(const Accelerator& accelerator, std::vector<GemmKernel>& kernels) {
  if (accelerator.block_in != kBlock || accelerator.block_out != kBlock) return;
  kernels.push_back({.name = "neon",
                     .inp_bytes = std::size_t{accelerator.inp_bytes()} * 2,
                     .wgt_bytes = std::size_t{accelerator.wgt_bytes()} * 2,
                     .pack_inp = pack_inp_int16,
                     .pack_wgt = pack_wgt_transposed,
                     .run = run_neon});
}

}  // namespace edgepipe

#endif  // __aarch64__
