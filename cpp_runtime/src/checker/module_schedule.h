// The three hardware modules, their command queues and their token queues, without the data.
//
// run_modules() plays a program as fetch, load, compute and store would, and calls back for every
// instruction as soon as it may run. It uses one deterministic order. Because modules communicate
// only through token queues, every other order possible in hardware matches the same tokens.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "edgepipe/instruction.h"

namespace edgepipe {

/// How many instructions of each module are known to be complete. An instruction with clock c runs
/// strictly after the first c[m] instructions of module m, independent of the hardware's timing.
using ModuleClock = std::array<std::uint32_t, kModules>;

struct ScheduledInstruction {
  std::uint32_t index;  // in the program
  Module module;
  std::uint32_t sequence;  // number among the instructions of its module, from 0
  ModuleClock clock;
};

/// Runs the schedule. Stops at the first status of `visit` that is not ok. kDevice when the
/// program deadlocks (token underflow, full queues) or leaves tokens behind; names the waiting
/// instruction of every module.
Status run_modules(const Accelerator& accelerator, std::span<const Instruction> program,
                   const std::function<Status(const ScheduledInstruction&)>& visit);

}  // namespace edgepipe
