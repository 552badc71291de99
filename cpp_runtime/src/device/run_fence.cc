#include "device/run_fence.h"

#include <array>
#include <string>

namespace edgepipe {
namespace {

/// Appends the fence and a FINISH; both take over the tokens of `finish`.
Status append_fence(const InstructionCodec& codec, const Accelerator& accelerator,
                    std::uint64_t address, const Instruction& finish,
                    std::vector<InstructionWord>& program) {
  const FenceLayout layout(accelerator);
  const auto element = [address](std::uint32_t offset, std::uint32_t bytes) {
    return static_cast<std::uint32_t>((address + offset) / bytes);
  };
  const Instruction load_uop{.opcode = Opcode::kLoad,
                             .pop_prev = finish.pop_prev,
                             .pop_next = finish.pop_next,
                             .memory_type = MemoryType::kUop,
                             .dram_base = element(layout.uop_offset, accelerator.uop_bytes()),
                             .y_size = 1,
                             .x_size = 1,
                             .x_stride = 1};
  const Instruction load_number{.opcode = Opcode::kLoad,
                                .memory_type = MemoryType::kAcc,
                                .dram_base = element(layout.acc_offset, accelerator.acc_bytes()),
                                .y_size = 1,
                                .x_size = 1,
                                .x_stride = 1};
  // Loads do not write the out buffer, but adding 0 does.
  const Instruction copy_to_out{.opcode = Opcode::kAlu,
                                .push_next = 1,
                                .uop_end = 1,
                                .iter_out = 1,
                                .iter_in = 1,
                                .alu_opcode = AluOp::kAdd,
                                .use_imm = 1};
  const Instruction store_number{.opcode = Opcode::kStore,
                                 .pop_prev = 1,
                                 .push_prev = 1,
                                 .memory_type = MemoryType::kOut,
                                 .dram_base = element(layout.out_offset, accelerator.out_bytes()),
                                 .y_size = 1,
                                 .x_size = 1,
                                 .x_stride = 1};
  const Instruction finish_after{.opcode = Opcode::kFinish,
                                 .pop_next = 1,
                                 .push_prev = finish.push_prev,
                                 .push_next = finish.push_next};

  for (const Instruction& instruction :
       {load_uop, load_number, copy_to_out, store_number, finish_after}) {
    Result<InstructionWord> word = codec.encode(instruction);
    if (!word.ok()) return word.status().with_context("run fence");
    program.push_back(*word);
  }
  return {};
}

}  // namespace

Result<std::vector<InstructionWord>> with_fence(const InstructionCodec& codec,
                                                const Accelerator& accelerator,
                                                std::span<const InstructionWord> program,
                                                std::uint64_t address) {
  if (program.empty()) return Status(Code::kInvalidArgument, "program: no instructions");
  Result<Instruction> finish = codec.decode(program.back());
  if (!finish.ok()) return finish.status().with_context("program: last instruction");
  if (finish->opcode != Opcode::kFinish || finish->pop_next == 0) {
    return Status(Code::kInvalidArgument, "program: last instruction is '" + disassemble(*finish) +
                                              "', expected a FINISH that pops the store's token");
  }

  std::vector<InstructionWord> fenced(program.begin(), program.end() - 1);
  Status status = append_fence(codec, accelerator, address, *finish, fenced);
  if (!status.ok()) return status;
  return fenced;
}

Result<std::vector<InstructionWord>> fence_alone(const InstructionCodec& codec,
                                                 const Accelerator& accelerator,
                                                 std::uint64_t address) {
  std::vector<InstructionWord> fence;
  Status status = append_fence(codec, accelerator, address, {.opcode = Opcode::kFinish}, fence);
  if (!status.ok()) return status;
  return fence;
}

}  // namespace edgepipe
