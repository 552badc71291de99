// ProductProgram: a small VTA program for any device: one product, y = low8(w * x).
//
//   ProductProgram program(device);
//   std::memset(program.int8_at(ProductProgram::kInpOffset), 1, device.accelerator().inp_bytes());
//   Status status = program.run();
//
// Tests change its instructions or memory and check what the device reports. Not thread-safe; the
// device outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe::conformance {

class ProductProgram {
 public:
  // Positions of the instructions.
  enum : std::size_t { kLoadUop, kLoadWgt, kLoadInp, kReset, kGemm, kStore, kFinish };

  // Offsets in `data`.
  static constexpr std::size_t kDataBytes = 16384;
  static constexpr std::size_t kUopOffset = 0;
  static constexpr std::size_t kWgtOffset = 4096;
  static constexpr std::size_t kInpOffset = 8192;
  static constexpr std::size_t kOutOffset = 12288;

  /// Allocates `data` in the device's memory; throws when there is no room.
  explicit ProductProgram(Device& device);

  /// A LOAD or STORE of one element at `offset` of `data`.
  [[nodiscard]] Instruction transfer(Opcode opcode, MemoryType type, std::size_t offset) const;

  /// dram_base of an offset into `data`.
  [[nodiscard]] std::uint32_t element(MemoryType type, std::size_t offset) const;

  /// An ALU instruction on acc entry 0.
  [[nodiscard]] static Instruction alu(AluOp op, std::int32_t imm);

  void insert(std::size_t before, const Instruction& instruction) {
    instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(before), instruction);
  }

  [[nodiscard]] std::int8_t* int8_at(std::size_t offset) const {
    return reinterpret_cast<std::int8_t*>(data.data() + offset);
  }

  /// Fills the weights and several inputs with numbers derived from `seed`.
  void fill(std::uint32_t seed);

  /// The expected y for the input `tile` tiles after kInpOffset: batch x block_out values.
  [[nodiscard]] std::vector<std::int8_t> product(std::size_t tile = 0) const;

  /// The output that is `tile` tiles after kOutOffset.
  [[nodiscard]] std::vector<std::int8_t> output(std::size_t tile = 0) const;

  /// Puts the instructions into new device memory.
  void write();
  void write(std::span<const InstructionWord> words);

  /// A submission that runs what was written last.
  [[nodiscard]] Submission submission(std::span<const LayerRange> layers = {}) const;

  /// Flushes `data`, runs what was written last and invalidates `data`.
  Status run_written(const Submission& submission);

  /// write() and run_written().
  Status run(std::span<const LayerRange> layers = {});
  Status run_words(std::span<const InstructionWord> words, std::span<const LayerRange> layers = {});

  std::vector<Instruction> instructions;
  Buffer data;
  Buffer program;
  std::chrono::nanoseconds time_limit = std::chrono::seconds(30);

 private:
  Device& device_;
};

}  // namespace edgepipe::conformance
