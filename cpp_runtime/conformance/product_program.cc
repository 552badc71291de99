#include "edgepipe/conformance/product_program.h"

#include <cstring>
#include <random>

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kInputs = 8;  // tiles that fill() writes

}  // namespace

ProductProgram::ProductProgram(Device& device)
    : data(*device.memory().allocate(kDataBytes)), device_(device) {
  const std::uint32_t uop = *InstructionCodec(device.accelerator()).encode_uop({});
  std::memcpy(data.data() + kUopOffset, &uop, sizeof(uop));
  instructions.push_back(transfer(Opcode::kLoad, MemoryType::kUop, kUopOffset));
  instructions.push_back(transfer(Opcode::kLoad, MemoryType::kWgt, kWgtOffset));
  instructions.push_back(transfer(Opcode::kLoad, MemoryType::kInp, kInpOffset));
  instructions.back().push_next = 1;
  Instruction gemm{.opcode = Opcode::kGemm, .uop_end = 1, .iter_out = 1, .iter_in = 1};
  gemm.reset = 1;
  instructions.push_back(gemm);
  gemm.reset = 0;
  gemm.pop_prev = gemm.push_next = 1;
  instructions.push_back(gemm);
  instructions.push_back(transfer(Opcode::kStore, MemoryType::kOut, kOutOffset));
  instructions.back().pop_prev = instructions.back().push_prev = 1;
  instructions.push_back({.opcode = Opcode::kFinish, .pop_next = 1});
}

Instruction ProductProgram::transfer(Opcode opcode, MemoryType type, std::size_t offset) const {
  Instruction instruction{.opcode = opcode, .memory_type = type};
  instruction.dram_base = element(type, offset);
  instruction.x_size = instruction.y_size = instruction.x_stride = 1;
  return instruction;
}

std::uint32_t ProductProgram::element(MemoryType type, std::size_t offset) const {
  return static_cast<std::uint32_t>((data.device_address() + offset) /
                                    device_.accelerator().element_bytes(type));
}

Instruction ProductProgram::alu(AluOp op, std::int32_t imm) {
  return {.opcode = Opcode::kAlu,
          .uop_end = 1,
          .iter_out = 1,
          .iter_in = 1,
          .alu_opcode = op,
          .use_imm = 1,
          .imm = imm};
}

void ProductProgram::fill(std::uint32_t seed) {
  std::mt19937 random(seed);
  const Accelerator& a = device_.accelerator();
  for (std::size_t n = 0; n < a.wgt_bytes(); ++n) {
    int8_at(kWgtOffset)[n] = static_cast<std::int8_t>(random());
  }
  for (std::size_t n = 0; n < kInputs * a.inp_bytes(); ++n) {
    int8_at(kInpOffset)[n] = static_cast<std::int8_t>(random());
  }
}

std::vector<std::int8_t> ProductProgram::product(std::size_t tile) const {
  const Accelerator& a = device_.accelerator();
  const std::int8_t* const x = int8_at(kInpOffset) + tile * a.inp_bytes();
  std::vector<std::int8_t> values;
  for (std::uint32_t b = 0; b < a.batch; ++b) {
    for (std::uint32_t o = 0; o < a.block_out; ++o) {
      std::int32_t sum = 0;
      for (std::uint32_t k = 0; k < a.block_in; ++k) {
        sum += x[b * a.block_in + k] * int8_at(kWgtOffset)[o * a.block_in + k];
      }
      values.push_back(static_cast<std::int8_t>(sum));
    }
  }
  return values;
}

std::vector<std::int8_t> ProductProgram::output(std::size_t tile) const {
  const std::size_t bytes = device_.accelerator().out_bytes();
  const std::int8_t* const y = int8_at(kOutOffset) + tile * bytes;
  return {y, y + bytes};
}

void ProductProgram::write() {
  const InstructionCodec codec(device_.accelerator());
  std::vector<InstructionWord> words;
  for (const Instruction& instruction : instructions) words.push_back(*codec.encode(instruction));
  write(words);
}

void ProductProgram::write(std::span<const InstructionWord> words) {
  program = *device_.memory().allocate(words.size_bytes());
  if (!words.empty()) std::memcpy(program.data(), words.data(), words.size_bytes());
  device_.memory().flush(program.view());
}

Submission ProductProgram::submission(std::span<const LayerRange> layers) const {
  return {.address = program.device_address(),
          .count = static_cast<std::uint32_t>(program.bytes() / sizeof(InstructionWord)),
          .time_limit = time_limit,
          .layers = layers};
}

Status ProductProgram::run_written(const Submission& submission) {
  device_.memory().flush(data.view());
  Status status = device_.run(submission);
  device_.memory().invalidate(data.view());
  return status;
}

Status ProductProgram::run(std::span<const LayerRange> layers) {
  write();
  return run_written(submission(layers));
}

Status ProductProgram::run_words(std::span<const InstructionWord> words,
                                 std::span<const LayerRange> layers) {
  write(words);
  return run_written(submission(layers));
}

}  // namespace edgepipe::conformance
