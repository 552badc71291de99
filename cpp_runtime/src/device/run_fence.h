// The instructions that prove a run's end: before FINISH, store a number that only this run has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/status.h"
#include "isa/instruction.h"

namespace edgepipe {

/// Where the fence's data lie in its block of memory, in bytes. Every offset is aligned for its
/// type when the block is aligned to a page.
struct FenceLayout {
  explicit FenceLayout(const Accelerator& accelerator)
      : acc_offset(accelerator.acc_bytes()),
        out_offset(2 * accelerator.acc_bytes()),
        bytes(2 * accelerator.acc_bytes() + accelerator.out_bytes()) {}

  std::uint32_t uop_offset = 0;  // one uop, 0: dst 0
  std::uint32_t acc_offset;      // one acc element: the number, a byte in each lane
  std::uint32_t out_offset;      // one out element, written by the accelerator
  std::uint32_t bytes;
};

/// Returns a program with the fence before its FINISH. `address` is the block's device address. The
/// fence takes over the tokens that FINISH pops, so it begins when the program's last store is
/// done. kInvalidArgument for a program that does not end in a FINISH, or whose FINISH does not
/// wait for the store module: its done flag would say nothing about the memory.
Result<std::vector<InstructionWord>> with_fence(const InstructionCodec& codec,
                                                const Accelerator& accelerator,
                                                std::span<const InstructionWord> program,
                                                std::uint64_t address);

}  // namespace edgepipe
