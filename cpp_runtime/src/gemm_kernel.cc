#include "gemm_kernel.h"

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
  const auto* inp = reinterpret_cast<const std::int8_t*>(operands.inp);
  const auto* wgt = reinterpret_cast<const std::int8_t*>(operands.wgt);
  for_each_step(operands.instruction, operands.uops,
                [&](std::uint32_t dst, std::uint32_t src, std::uint32_t tile) {
                  std::int32_t* acc = operands.acc + std::size_t{dst} * a.batch * a.block_out;
                  const std::int8_t* x = inp + std::size_t{src} * a.inp_bytes();
                  for (std::uint32_t b = 0; b < a.batch; ++b, x += a.block_in) {
                    const std::int8_t* w = wgt + std::size_t{tile} * a.wgt_bytes();
                    for (std::uint32_t o = 0; o < a.block_out; ++o, ++acc, w += a.block_in) {
                      std::int32_t sum = 0;
                      for (std::uint32_t k = 0; k < a.block_in; ++k) sum += x[k] * w[k];
                      *acc = static_cast<std::int32_t>(static_cast<std::uint32_t>(*acc) +
                                                       static_cast<std::uint32_t>(sum));
                    }
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
