#include "isa/image_relocation.h"

#include <cstddef>
#include <string>

namespace edgepipe {
namespace {

std::uint32_t element_bytes(const Accelerator& accelerator, MemoryType type) {
  switch (type) {
    case MemoryType::kUop:
      return accelerator.uop_bytes();
    case MemoryType::kWgt:
      return accelerator.wgt_bytes();
    case MemoryType::kInp:
      return accelerator.inp_bytes();
    case MemoryType::kAcc:
      return accelerator.acc_bytes();
    case MemoryType::kTable:
      return accelerator.table_bytes();
    case MemoryType::kOut:
      return accelerator.out_bytes();
  }
  return 1;
}

}  // namespace

Status relocate_image(const Accelerator& accelerator, std::uint64_t address,
                      std::span<InstructionWord> program) {
  const InstructionCodec codec(accelerator);
  for (std::size_t i = 0; i < program.size(); ++i) {
    Result<Instruction> instruction = codec.decode(program[i]);
    if (!instruction.ok()) {
      return instruction.status().with_context("instruction " + std::to_string(i));
    }
    if (instruction->opcode != Opcode::kLoad && instruction->opcode != Opcode::kStore) continue;
    const std::uint32_t bytes = element_bytes(accelerator, instruction->memory_type);
    instruction->dram_base += static_cast<std::uint32_t>(address / bytes);
    Result<InstructionWord> word = codec.encode(*instruction);
    if (!word.ok()) return word.status().with_context("instruction " + std::to_string(i));
    program[i] = *word;
  }
  return {};
}

}  // namespace edgepipe
