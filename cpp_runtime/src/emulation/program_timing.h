// program_cycles: how long a program takes on an accelerator, by the timing model.
//
//   Result<std::uint64_t> cycles = program_cycles(accelerator, cost, words);
//
//   ProgramTimes times(accelerator, cost);  // remembers the programs that it has seen
//   Result<std::chrono::nanoseconds> time = times.of(words);
//
// The model is that of vta_stages/timing/timing_model.py, whose docstring describes it. A Python
// test requires the same number of cycles from both, for every key of the cost model.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"
#include "emulation/cost_model.h"

namespace edgepipe {

/// The cycles from the start of a program to the end of its FINISH, without the host's launch.
/// kDevice for a program that never ends or that cannot be decoded.
Result<std::uint64_t> program_cycles(const Accelerator& accelerator, const CostModel& cost,
                                     std::span<const InstructionWord> program);

/// The times of programs at the accelerator's clock. Not thread-safe.
class ProgramTimes {
 public:
  ProgramTimes(const Accelerator& accelerator, const CostModel& cost)
      : accelerator_(accelerator), cost_(cost) {}

  /// The time of a program, which is modelled only if it is not one of the last ones. May allocate.
  Result<std::chrono::nanoseconds> of(std::span<const InstructionWord> program);

 private:
  struct Known {
    std::vector<InstructionWord> program;
    std::chrono::nanoseconds time;
  };

  const Accelerator accelerator_;
  const CostModel cost_;
  std::vector<Known> known_;  // a ring once it is full
  std::size_t oldest_ = 0;
};

}  // namespace edgepipe
