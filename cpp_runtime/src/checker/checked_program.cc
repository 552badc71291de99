#include <algorithm>
#include <cstring>

#include "checker/dram_span.h"
#include "checker/program_checker.h"

namespace edgepipe {

bool CheckedProgram::refresh(const Accelerator& accelerator, const DeviceMemory& memory) {
  if (const std::uint64_t generation = memory.generation(); generation != memory_generation) {
    for (CheckedInstruction& step : steps) {
      if (step.dram == nullptr) continue;
      const DramSpan span = dram_span(accelerator, step.instruction);
      Result<std::byte*> pointer = translate(memory, span);
      if (!pointer.ok()) return false;
      step.dram = *pointer;
    }
    memory_generation = generation;
  }
  return !ranges.empty() || uops_are_those_in_memory();
}

bool CheckedProgram::uops_are_those_in_memory() const {
  return std::all_of(uop_sources.begin(), uop_sources.end(), [this](const UopSource& source) {
    const CheckedInstruction& load = steps[source.step];
    return std::memcmp(load.dram, uops.data() + source.first,
                       load.instruction.x_size * sizeof(std::uint32_t)) == 0;
  });
}

}  // namespace edgepipe
