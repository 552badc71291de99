#if defined(__x86_64__)

#include <immintrin.h>

#include "bundle/sha256.h"
#include "stage/cpu_features.h"

namespace edgepipe {
namespace {

// The instructions keep the state as the words (f, e, b, a) and (h, g, d, c) of one register each,
// lowest first (Intel SDM vol. 2B, SHA256RNDS2).
__attribute__((target("sha,sse4.1"))) void add_blocks(Sha256State& state, const std::byte* blocks,
                                                      std::size_t count) {
  const __m128i byte_order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  auto* const words = reinterpret_cast<__m128i*>(state.data());
  const auto* const constants = reinterpret_cast<const __m128i*>(kSha256Constants.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i feba = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i hgdc = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (std::size_t index = 0; index < count; ++index) {
    const auto* const block = reinterpret_cast<const __m128i*>(blocks + index * kSha256BlockBytes);
    const __m128i feba_before = feba;
    const __m128i hgdc_before = hgdc;
    __m128i schedule[4];
    for (std::size_t four = 0; four < 16; ++four) {
      __m128i& next = schedule[four % 4];
      if (four < 4) {
        next = _mm_shuffle_epi8(_mm_loadu_si128(block + four), byte_order);
      } else {
        const __m128i last = schedule[(four + 3) % 4];
        const __m128i seven_back = _mm_alignr_epi8(last, schedule[(four + 2) % 4], 4);
        const __m128i sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(next, schedule[(four + 1) % 4]), seven_back);
        next = _mm_sha256msg2_epu32(sum, last);
      }
      const __m128i added = _mm_add_epi32(next, _mm_loadu_si128(constants + four));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, added);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(added, 0x0e));
    }
    feba = _mm_add_epi32(feba, feba_before);
    hgdc = _mm_add_epi32(hgdc, hgdc_before);
  }
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1b);
  const __m128i dcgh = _mm_shuffle_epi32(hgdc, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(abef, dcgh, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dcgh, abef, 8));
}

}  // namespace

void add_x86_sha256_kernel(std::vector<Sha256Kernel>& kernels) {
  if (has_cpu_feature("sha_ni")) kernels.push_back({"sha_ni", add_blocks});
}

}  // namespace edgepipe

#endif
