// A small VTA program with its own memory, for tests: one product, y = low8(w * x).
//
// Tests change its instructions or memory and check the simulator's answer.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "edgepipe/instruction.h"
#include "simulator/simulator.h"

namespace edgepipe::testing {

class VtaProgram {
 public:
  // Positions of the instructions.
  enum : std::size_t { kLoadUop, kLoadWgt, kLoadInp, kReset, kGemm, kStore, kFinish };

  explicit VtaProgram(Accelerator accelerator = {}, const Simulator::Options& options = {})
      : accelerator(accelerator) {
    memory = *HostMemory::create({.arena_bytes = std::size_t{1} << 20});
    simulator = *Simulator::create(accelerator, *memory, options);
    data = *memory->allocate(kDataBytes);
    const InstructionCodec codec(accelerator);
    const std::uint32_t uop = *codec.encode_uop({});
    std::memcpy(data.data(), &uop, sizeof(uop));

    const auto transfer = [&](Opcode opcode, MemoryType type, std::size_t offset) {
      Instruction i{.opcode = opcode, .memory_type = type};
      i.dram_base = element(type, offset);
      i.x_size = i.y_size = i.x_stride = 1;
      instructions.push_back(i);
      return &instructions.back();
    };
    instructions.reserve(16);
    transfer(Opcode::kLoad, MemoryType::kUop, kUopOffset);
    transfer(Opcode::kLoad, MemoryType::kWgt, kWgtOffset);
    transfer(Opcode::kLoad, MemoryType::kInp, kInpOffset)->push_next = 1;
    Instruction gemm{.opcode = Opcode::kGemm, .uop_end = 1, .iter_out = 1, .iter_in = 1};
    gemm.reset = 1;
    instructions.push_back(gemm);
    gemm.reset = 0;
    gemm.pop_prev = gemm.push_next = 1;
    instructions.push_back(gemm);
    Instruction* store = transfer(Opcode::kStore, MemoryType::kOut, kOutOffset);
    store->pop_prev = store->push_prev = 1;
    instructions.push_back({.opcode = Opcode::kFinish, .pop_next = 1});
  }

  // The layout of `data`.
  static constexpr std::size_t kDataBytes = 16384;
  static constexpr std::size_t kUopOffset = 0;
  static constexpr std::size_t kWgtOffset = 4096;
  static constexpr std::size_t kInpOffset = 8192;
  static constexpr std::size_t kOutOffset = 12288;

  /// dram_base of an offset into `data`.
  [[nodiscard]] std::uint32_t element(MemoryType type, std::size_t offset) const {
    return static_cast<std::uint32_t>((data.device_address() + offset) /
                                      accelerator.element_bytes(type));
  }

  /// An ALU instruction on acc entry 0.
  static Instruction alu(AluOp op, std::int32_t imm) {
    return {.opcode = Opcode::kAlu,
            .uop_end = 1,
            .iter_out = 1,
            .iter_in = 1,
            .alu_opcode = op,
            .use_imm = 1,
            .imm = imm};
  }

  void insert(std::size_t before, const Instruction& instruction) {
    instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(before), instruction);
  }

  /// Writes the instructions to device memory and runs them.
  Status run(std::span<const LayerRange> layers = {}) {
    const InstructionCodec codec(accelerator);
    std::vector<InstructionWord> words;
    for (const Instruction& instruction : instructions) {
      words.push_back(*codec.encode(instruction));
    }
    return run_words(words, layers);
  }

  Status run_words(std::span<const InstructionWord> words,
                   std::span<const LayerRange> layers = {}) {
    program = *memory->allocate(words.size_bytes());
    std::memcpy(program.data(), words.data(), words.size_bytes());
    return simulator->run({.address = program.device_address(),
                           .count = static_cast<std::uint32_t>(words.size()),
                           .time_limit = time_limit,
                           .layers = layers});
  }

  [[nodiscard]] std::int8_t* int8_at(std::size_t offset) const {
    return reinterpret_cast<std::int8_t*>(data.data() + offset);
  }

  Accelerator accelerator;
  std::unique_ptr<HostMemory> memory;
  std::unique_ptr<Simulator> simulator;
  Buffer data;
  Buffer program;
  std::vector<Instruction> instructions;
  std::chrono::nanoseconds time_limit = std::chrono::hours(1);
};

}  // namespace edgepipe::testing
