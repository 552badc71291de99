// DramSpan: the device memory that a LOAD or STORE moves, from its first to its last row.
//
//   const DramSpan span = dram_span(accelerator, instruction);
//   Result<std::byte*> pointer = translate(memory, span);
#pragma once

#include <cstddef>
#include <cstdint>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct DramSpan {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// The span of an instruction that transfers at least one row.
DramSpan dram_span(const Accelerator& accelerator, const Instruction& i);

/// The CPU's pointer to it; an error unless it is inside one allocation.
Result<std::byte*> translate(const DeviceMemory& memory, const DramSpan& span);

}  // namespace edgepipe
