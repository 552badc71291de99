// ProgramChecker: every rule of the hardware that a program can break, checked once per program.
//
// The verdict depends on the instructions, on the uops in memory and on which allocations are
// live; CheckedProgram keeps all three, so that a later run is allowed as long as they are the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "isa/instruction.h"

namespace edgepipe {

/// One instruction of a program that passed, with its memory address resolved.
struct CheckedInstruction {
  Instruction instruction;
  std::byte* dram = nullptr;   // what dram_base points at; null when no row is transferred
  bool out_is_stored = false;  // a STORE reads what this GEMM or ALU leaves in the out buffer
};

/// A program that passed, in an order that its tokens allow.
struct CheckedProgram {
  std::vector<InstructionWord> words;  // as in memory
  std::vector<CheckedInstruction> steps;

  struct UopSource {
    std::size_t step;   // the UOP load
    std::size_t first;  // its first word in `uops`
  };
  std::vector<UopSource> uop_sources;
  std::vector<std::uint32_t> uops;
  std::uint64_t memory_generation = 0;

  /// True when the verdict still holds: every transfer lies in one allocation (addresses are looked
  /// up again if allocations changed) and the uops in memory are those that were checked.
  [[nodiscard]] bool refresh(const Accelerator& accelerator, const DeviceMemory& memory);

  [[nodiscard]] bool uops_are_those_in_memory() const;
};

/// Checks a program: encoding, token balance, deadlock, bounds of every SRAM and DRAM access,
/// reads of SRAM that nothing wrote, accesses of two modules that no token orders (SRAM and DRAM),
/// acc hazards, one FINISH at the end that waits for everything. kDevice names the first
/// instruction that breaks a rule, its layer, its text and the numbers. `like` is a program that
/// passed, or null: a copy of it at other addresses, such as the program of another slot, is
/// checked in a tenth of the time.
Result<CheckedProgram> check_program(const Accelerator& accelerator, const DeviceMemory& memory,
                                     std::span<const InstructionWord> words,
                                     std::span<const LayerRange> layers,
                                     const CheckedProgram* like);

}  // namespace edgepipe
