#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "simulator/gemm_kernel.h"

// For a kernel and its row function, which would otherwise be compiled for the baseline CPU. A
// kernel's callees are inlined into it.
#define EDGEPIPE_AVX2 __attribute__((target("avx2"), flatten))
#define EDGEPIPE_VNNI __attribute__((target("avx512f,avx512vnni"), flatten))

namespace edgepipe {
namespace {

constexpr std::size_t kBlock = 16;

// ---- AVX2: int16 pairs -------------------------------------------------------------------------
// inp: int16[batch][16]. wgt: int16[8 pairs of k][16 outputs][2], so that one madd of a broadcast
// pair of inputs computes the sum of two products for eight outputs, without a horizontal add.

void pack_wgt_int16(const Accelerator& /*a*/, const std::int8_t* element, std::byte* packed) {
  for (std::size_t o = 0; o < kBlock; ++o) {
    for (std::size_t k = 0; k < kBlock; ++k) {
      put_int16(packed, (k / 2 * kBlock + o) * 2 + k % 2, element[o * kBlock + k]);
    }
  }
}

EDGEPIPE_AVX2 void run_avx2(const GemmOperands& operands) {
  for_each_row(operands, kBlock * 2, kBlock * kBlock * 2,
               [](const std::byte* x, const std::byte* wgt, std::int32_t* acc) EDGEPIPE_AVX2 {
                 const auto* w = reinterpret_cast<const __m256i*>(wgt);
                 auto* sums = reinterpret_cast<__m256i*>(acc);
                 __m256i low = _mm256_loadu_si256(sums);
                 __m256i high = _mm256_loadu_si256(sums + 1);
                 for (std::size_t pair = 0; pair < kBlock / 2; ++pair) {
                   std::int32_t two = 0;
                   std::memcpy(&two, x + 4 * pair, sizeof(two));
                   const __m256i inputs = _mm256_set1_epi32(two);
                   low = _mm256_add_epi32(
                       low, _mm256_madd_epi16(inputs, _mm256_loadu_si256(w + 2 * pair)));
                   high = _mm256_add_epi32(
                       high, _mm256_madd_epi16(inputs, _mm256_loadu_si256(w + 2 * pair + 1)));
                 }
                 _mm256_storeu_si256(sums, low);
                 _mm256_storeu_si256(sums + 1, high);
               });
}

// ---- AVX-512 VNNI: unsigned by signed bytes ----------------------------------------------------
// The first factor of vpdpbusd is unsigned: inp is stored as x + 128, and each tile contains the
// correction -128 * sum over k of w[o][k].
// inp: uint8[batch][16]. wgt: int8[4 quads of k][16 outputs][4], then int32[16] corrections.

constexpr std::size_t kVnniWgtBytes = kBlock * kBlock + kBlock * 4;

void pack_inp_offset(const Accelerator& a, const std::int8_t* element, std::byte* packed) {
  for (std::size_t k = 0; k < a.inp_bytes(); ++k) {
    packed[k] = static_cast<std::byte>(element[k]) ^ std::byte{0x80};
  }
}

void pack_wgt_vnni(const Accelerator& /*a*/, const std::int8_t* element, std::byte* packed) {
  for (std::size_t o = 0; o < kBlock; ++o) {
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < kBlock; ++k) {
      const std::int8_t value = element[o * kBlock + k];
      packed[(k / 4 * kBlock + o) * 4 + k % 4] = static_cast<std::byte>(value);
      sum += value;
    }
    const std::int32_t correction = -128 * sum;
    std::memcpy(packed + kBlock * kBlock + 4 * o, &correction, sizeof(correction));
  }
}

EDGEPIPE_VNNI void run_vnni(const GemmOperands& operands) {
  for_each_row(operands, kBlock, kVnniWgtBytes,
               [](const std::byte* x, const std::byte* w, std::int32_t* acc) EDGEPIPE_VNNI {
                 // Two sums, because a dependent vpdpbusd waits for the previous one.
                 __m512i even = _mm512_loadu_si512(acc);
                 __m512i odd = _mm512_loadu_si512(w + kBlock * kBlock);
                 for (std::size_t quad = 0; quad < kBlock / 4; quad += 2) {
                   std::int32_t first = 0;
                   std::int32_t second = 0;
                   std::memcpy(&first, x + 4 * quad, sizeof(first));
                   std::memcpy(&second, x + 4 * quad + 4, sizeof(second));
                   const std::byte* quads = w + quad * kBlock * 4;
                   even = _mm512_dpbusd_epi32(even, _mm512_set1_epi32(first),
                                              _mm512_loadu_si512(quads));
                   odd = _mm512_dpbusd_epi32(odd, _mm512_set1_epi32(second),
                                             _mm512_loadu_si512(quads + kBlock * 4));
                 }
                 _mm512_storeu_si512(acc, _mm512_add_epi32(even, odd));
               });
}

}  // namespace

void add_x86_gemm_kernels(const Accelerator& accelerator, std::vector<GemmKernel>& kernels) {
  if (accelerator.block_in != kBlock || accelerator.block_out != kBlock) return;
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vnni") != 0) {
    kernels.push_back({.name = "avx512-vnni",
                       .inp_bytes = accelerator.inp_bytes(),
                       .wgt_bytes = kVnniWgtBytes,
                       .pack_inp = pack_inp_offset,
                       .pack_wgt = pack_wgt_vnni,
                       .run = run_vnni});
  }
  if (__builtin_cpu_supports("avx2") != 0) {
    kernels.push_back({.name = "avx2",
                       .inp_bytes = std::size_t{accelerator.inp_bytes()} * 2,
                       .wgt_bytes = std::size_t{accelerator.wgt_bytes()} * 2,
                       .pack_inp = pack_inp_int16,
                       .pack_wgt = pack_wgt_int16,
                       .run = run_avx2});
  }
}

}  // namespace edgepipe

#endif  // __x86_64__
