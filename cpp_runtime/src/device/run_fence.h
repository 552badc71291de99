// The instructions that prove the end of a run: before FINISH, they store a number unique to the
// run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// The layout of the fence's memory block, in bytes. If the block is page-aligned, every offset is
/// aligned for its type.
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
/// fence pops the tokens that FINISH popped, so it starts after the program's last store.
/// kInvalidArgument for a program that does not end with a FINISH, or whose FINISH does not wait
/// for the store module: its done flag would not guarantee that memory is written.
Result<std::vector<InstructionWord>> with_fence(const InstructionCodec& codec,
                                                const Accelerator& accelerator,
                                                std::span<const InstructionWord> program,
                                                std::uint64_t address);

/// Returns a program that is only the fence: its number is stored after everything that the
/// accelerator was started with before.
Result<std::vector<InstructionWord>> fence_alone(const InstructionCodec& codec,
                                                 const Accelerator& accelerator,
                                                 std::uint64_t address);

}  // namespace edgepipe
