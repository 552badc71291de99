// ProgramChecker: every rule of the hardware that a program can break, checked once per program.
//
// The verdict depends on the instructions, on the uops in memory and on the live allocations.
// CheckedProgram stores all three, so a later run needs no new check as long as they are unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// One instruction of a program that passed, with its memory address resolved.
struct CheckedInstruction {
  Instruction instruction;
  std::byte* dram = nullptr;   // the target of dram_base; null if no row is transferred
  bool out_is_stored = false;  // a STORE reads the out entries that this GEMM or ALU writes
};

/// A program that passed the check, in an order that its tokens allow.
struct CheckedProgram {
  std::vector<InstructionWord> words;  // as in memory
  std::vector<CheckedInstruction> steps;

  struct UopSource {
    std::size_t step;   // the UOP load
    std::size_t first;  // its first word in `uops`
  };
  std::vector<UopSource> uop_sources;
  std::vector<std::uint32_t> uops;
  std::vector<MemoryRange> ranges;  // that it may access; empty: every allocation
  std::uint64_t memory_generation = 0;
  std::uint64_t number = 0;  // the same for equal instructions only

  /// True if the verdict still holds: every transfer is inside one allocation (addresses are looked
  /// up again if allocations changed) and the uops in memory are the checked ones. Those in
  /// constant ranges are not compared.
  [[nodiscard]] bool refresh(const Accelerator& accelerator, const DeviceMemory& memory);

  [[nodiscard]] bool uops_are_those_in_memory() const;
};

/// What check_program needs besides the instructions. Everything is borrowed for the call.
struct ProgramContext {
  std::span<const LayerRange> layers = {};   // for error texts
  std::span<const MemoryRange> ranges = {};  // that it may access; empty: every allocation
  // A checked program or null. A copy of it at other addresses, such as the program of another
  // slot, is checked in a tenth of the time.
  const CheckedProgram* like = nullptr;
};

/// Checks a program: encoding, token balance, deadlock, bounds of every SRAM and DRAM access,
/// reads of uninitialised SRAM, accesses of two modules that no token orders (SRAM and DRAM),
/// acc hazards, one FINISH at the end that waits for everything, what the accelerator's
/// implementation reads differently: src of immediates, and for kChisel distances of vector SHRs,
/// which must come from a constant range and not be negative. With ranges, also that every access
/// to device memory is inside one that permits it. kDevice names the first instruction that breaks
/// a rule, its layer, its text and the numbers.
Result<CheckedProgram> check_program(const Accelerator& accelerator, const DeviceMemory& memory,
                                     std::span<const InstructionWord> words,
                                     const ProgramContext& context);

}  // namespace edgepipe
