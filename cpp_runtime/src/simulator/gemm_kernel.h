// GemmKernel: an implementation of GEMM instructions for this CPU. All kernels compute the same
// bits.
//
// A kernel keeps inputs and weights in SRAM in its own packed form. They are packed once by LOAD,
// because many steps use each tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "isa/instruction_steps.h"

namespace edgepipe {

/// Some iterations of a GEMM instruction, and everything that they access. Indices have been
/// checked.
struct GemmOperands {
  const Accelerator& accelerator;
  const Instruction& instruction;
  Iterations iterations;
  const Uop* uops;       // of the instruction's range
  const std::byte* inp;  // packed
  const std::byte* wgt;  // packed
  std::int32_t* acc;     // int32[depth][batch][block_out]
};

struct GemmKernel {
  std::string_view name;
  std::size_t inp_bytes = 0;  // one packed input element
  std::size_t wgt_bytes = 0;  // one packed weight element
  void (*pack_inp)(const Accelerator&, const std::int8_t* element, std::byte* packed) = nullptr;
  void (*pack_wgt)(const Accelerator&, const std::int8_t* element, std::byte* packed) = nullptr;
  void (*run)(const GemmOperands&) = nullptr;
};

/// The kernels that this CPU can run for this accelerator, fastest first; the last is "portable".
std::vector<GemmKernel> gemm_kernels(const Accelerator& accelerator);

/// Adds the kernels for this machine's vector extensions, fastest first (gemm_x86.cc).
void add_x86_gemm_kernels(const Accelerator& accelerator, std::vector<GemmKernel>& kernels);

/// Adds the kernel for Advanced SIMD, which every aarch64 CPU has (gemm_neon.cc).
void add_neon_gemm_kernels(const Accelerator& accelerator, std::vector<GemmKernel>& kernels);

/// Calls row(x, w, acc) for every row of inputs of every step of the operands: `inp_bytes` of
/// packed inputs, the step's `wgt_bytes` of packed weights, and block_out sums.
template <typename Row>
void for_each_row(const GemmOperands& operands, std::size_t inp_bytes, std::size_t wgt_bytes,
                  Row&& row) {
  const std::size_t batch = operands.accelerator.batch;
  const std::size_t outputs = operands.accelerator.block_out;
  for_each_step(operands.instruction, operands.iterations, operands.uops,
                [&](std::uint32_t dst, std::uint32_t src, std::uint32_t tile) {
                  const std::byte* x = operands.inp + std::size_t{src} * batch * inp_bytes;
                  const std::byte* w = operands.wgt + std::size_t{tile} * wgt_bytes;
                  std::int32_t* acc = operands.acc + std::size_t{dst} * batch * outputs;
                  for (std::size_t b = 0; b < batch; ++b, x += inp_bytes, acc += outputs) {
                    row(x, w, acc);
                  }
                });
}

/// Writes the index-th number of a packed form in int16.
inline void put_int16(std::byte* packed, std::size_t index, std::int16_t value) {
  std::memcpy(packed + index * sizeof(value), &value, sizeof(value));
}

/// Packs inputs as int16[batch][block_in].
inline void pack_inp_int16(const Accelerator& a, const std::int8_t* element, std::byte* packed) {
  for (std::size_t k = 0; k < a.inp_bytes(); ++k) put_int16(packed, k, element[k]);
}

}  // namespace edgepipe
