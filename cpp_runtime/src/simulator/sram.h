// Sram: the on-chip buffers of a simulated accelerator, and the effect of each instruction on them.
//
// One function per instruction, without checks: ProgramChecker has accepted the program, and its
// verdict holds for every run of the same instructions and uops.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "isa/instruction_steps.h"
#include "simulator/gemm_kernel.h"

namespace edgepipe {

class Sram {
 public:
  Sram(const Accelerator& accelerator, const GemmKernel& kernel);

  [[nodiscard]] const GemmKernel& kernel() const { return kernel_; }

  // LOAD and STORE: `dram` is the target of the instruction's dram_base; unused for empty rows.
  void load_uop(const Instruction& instruction, const std::byte* dram);
  void load_inp(const Instruction& instruction, const std::byte* dram);
  void load_wgt(const Instruction& instruction, const std::byte* dram);
  void load_acc(const Instruction& instruction, const std::byte* dram);  // of kAcc8, too
  void load_table(const Instruction& instruction, const std::byte* dram);
  void store_out(const Instruction& instruction, std::byte* dram) const;

  // GEMM and ALU, in pieces of any number of iterations.
  void gemm(const Instruction& instruction, Iterations iterations);
  void gemm_reset(const Instruction& instruction, Iterations iterations);
  void alu(const Instruction& instruction, Iterations iterations);

  /// An ALU instruction with reset: each step updates the out buffer, then clears its acc entry.
  void alu_and_clear(const Instruction& instruction, Iterations iterations);

  /// Copies the low 8 bits of the acc entries that these iterations of a GEMM or ALU instruction
  /// wrote to the out buffer, or what the table has for them after a TABLE. The hardware does so at
  /// every step; here only entries that a STORE reads are copied.
  void update_out(const Instruction& instruction, Iterations iterations);

 private:
  void update_out(std::uint32_t entry, bool looks_up);

  [[nodiscard]] const Uop* uops_of(const Instruction& instruction) const {
    return uop_.data() + instruction.uop_begin;
  }

  const Accelerator accelerator_;
  const InstructionCodec codec_;
  const GemmKernel kernel_;
  std::vector<Uop> uop_;
  std::vector<std::byte> inp_;     // packed by kernel_
  std::vector<std::byte> wgt_;     // packed by kernel_
  std::vector<std::int32_t> acc_;  // [depth][batch][block_out]
  std::vector<std::int8_t> out_;   // [depth][batch][block_out]
  std::array<std::int8_t, kTableEntries> table_{};
  std::vector<std::int8_t> inp_pad_;  // an element of inp
};

}  // namespace edgepipe
