#include "simulator/gemm_kernel.h"

#include <algorithm>
#include <cstring>

namespace edgepipe {
namespace {

void copy_inp(const Accelerator& a, const std::int8_t* element, std::byte* packed) {
  std::memcpy(packed, element, a.inp_bytes());
}

void copy_wgt(const Accelerator& a, const std::int8_t* element, std::byte* packed) {
  std::memcpy(packed, element, a.wgt_bytes());
}

// acc[b][o] += sum over k of inp[b][k] * wgt[o][k], modulo 2^32 like the hardware's adders.
void run_portable(const GemmOperands& operands) {
  const Accelerator& a = operands.accelerator;
  for_each_row(operands, a.block_in, a.wgt_bytes(),
               [&](const std::byte* inp, const std::byte* wgt, std::int32_t* acc) {
                 const auto* x = reinterpret_cast<const std::int8_t*>(inp);
                 const auto* w = reinterpret_cast<const std::int8_t*>(wgt);
                 for (std::uint32_t o = 0; o < a.block_out; ++o, w += a.block_in) {
                   std::int32_t sum = 0;
                   for (std::uint32_t k = 0; k < a.block_in; ++k) sum += x[k] * w[k];
                   acc[o] = static_cast<std::int32_t>(static_cast<std::uint32_t>(acc[o]) +
                                                      static_cast<std::uint32_t>(sum));
                 }
               });
}

}  // namespace

std::vector<GemmKernel> gemm_kernels(const Accelerator& accelerator) {
  std::vector<GemmKernel> kernels;
#if defined(__x86_64__)
  add_x86_gemm_kernels(accelerator, kernels);
#elif defined(__aarch64__)
  add_neon_gemm_kernels(accelerator, kernels);
#endif
  kernels.push_back({.name = "portable",
                     .inp_bytes = accelerator.inp_bytes(),
                     .wgt_bytes = accelerator.wgt_bytes(),
                     .pack_inp = copy_inp,
                     .pack_wgt = copy_wgt,
                     .run = run_portable});
  return kernels;
}

}  // namespace edgepipe
