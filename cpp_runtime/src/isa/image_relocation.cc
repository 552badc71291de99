#include "isa/image_relocation.h"

#include <cstddef>
#include <string>

namespace edgepipe {
Status relocate_image(const Accelerator& accelerator, std::uint64_t address,
                      std::span<InstructionWord> program) {
  const InstructionCodec codec(accelerator);
  for (std::size_t i = 0; i < program.size(); ++i) {
    Result<Instruction> instruction = codec.decode(program[i]);
    if (!instruction.ok()) {
      return instruction.status().with_context("instruction " + std::to_string(i));
    }
    if (instruction->opcode != Opcode::kLoad && instruction->opcode != Opcode::kStore) continue;
    const std::uint32_t bytes = accelerator.element_bytes(instruction->memory_type);
    instruction->dram_base += static_cast<std::uint32_t>(address / bytes);
    Result<InstructionWord> word = codec.encode(*instruction);
    if (!word.ok()) return word.status().with_context("instruction " + std::to_string(i));
    program[i] = *word;
  }
  return {};
}

}  // namespace edgepipe
