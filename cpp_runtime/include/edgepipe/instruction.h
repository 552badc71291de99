// Instruction: one 128-bit VTA instruction, its fields and its text.
//
//   InstructionCodec codec(accelerator);
//   Result<Instruction> instruction = codec.decode(word);
//   if (instruction.ok()) log(disassemble(*instruction));
//
// All field positions come from one table (instruction.cc), which codec.fields() returns. A
// Python test compares it with vta_stages/isa/fields.py.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// What an instruction does; the values are those of its bits.
enum class Opcode : std::uint32_t { kLoad = 0, kStore = 1, kGemm = 2, kFinish = 3, kAlu = 4 };
/// What an ALU instruction computes from acc[dst] and an operand, the immediate or acc[src]; kShr
/// is an arithmetic shift. The others after it are extensions: kRequantise adds operand >> 5 (0 for
/// an immediate), shifts right by operand & 31 and clips to int8s in the immediate: the low one in
/// bits 7:0, or without an acc[src] in bits 7:5 with zeros below them, the high one in bits 15:8.
/// kMultiply multiplies the low 16 bits of both, signed. kTable is kRequantise, but the out buffer
/// gets the table's entry for the result; acc gets the result itself. kLeaky makes max(v, t >>
/// second) of v = acc[dst]: t is (v + operand) >> first, with the operand 0 for an immediate, and
/// is added to v if bit 3 of the immediate is set; first is in its bits 2:0, second in its bits
/// 6:4.
enum class AluOp : std::uint32_t {
  kMin = 0,
  kMax = 1,
  kAdd = 2,
  kShr = 3,
  kRequantise = 4,
  kMultiply = 5,
  kTable = 6,
  kLeaky = 7
};

/// The extension that an ALU operation needs, none if every accelerator has it.
[[nodiscard]] std::optional<Extension> extension_of(AluOp op);

/// The hardware modules, in the direction of the token queues: prev is lower, next is higher.
enum class Module : std::uint8_t { kLoad = 0, kCompute = 1, kStore = 2 };

/// How many values Module has.
inline constexpr std::size_t kModules = 3;

/// What pads hold for a pad_value of 1.
inline constexpr std::int32_t kPadUnit = 4;

/// The two little-endian 64-bit halves of an instruction in memory.
struct InstructionWord {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// A decoded instruction. Fields that an opcode does not have are 0. Sizes count elements.
struct Instruction {
  Opcode opcode = Opcode::kFinish;
  std::uint32_t pop_prev = 0, pop_next = 0, push_prev = 0, push_next = 0;

  // LOAD and STORE
  MemoryType memory_type = MemoryType::kUop;
  std::uint32_t sram_base = 0, dram_base = 0;
  std::uint32_t y_size = 0, x_size = 0, x_stride = 0;
  std::uint32_t y_pad_0 = 0, y_pad_1 = 0, x_pad_0 = 0, x_pad_1 = 0;
  std::int32_t pad_value = 0;  // LOAD only: all lanes of pads hold kPadUnit times as much

  // GEMM and ALU
  std::uint32_t reset = 0, uop_begin = 0, uop_end = 0, iter_out = 0, iter_in = 0;
  std::uint32_t dst_factor_out = 0, dst_factor_in = 0, src_factor_out = 0, src_factor_in = 0;
  std::uint32_t wgt_factor_out = 0, wgt_factor_in = 0;  // GEMM only
  AluOp alu_opcode = AluOp::kMin;                       // ALU only, as use_imm and imm
  std::uint32_t use_imm = 0;
  std::int32_t imm = 0;

  bool operator==(const Instruction&) const = default;
};

/// The instructions [first, first + count) were compiled from the layer `name`.
struct LayerRange {
  std::string name;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The position of one field: bits [bit, bit + bits) of the low (word 0) or high (word 1) half.
struct InstructionField {
  std::string_view name;
  std::uint32_t word = 0;
  std::uint32_t bit = 0;
  std::uint32_t bits = 0;
  std::uint32_t member = 0;  // the codec's internal number of the field
};

/// A micro-op: the element indices where GEMM and ALU loops start.
struct Uop {
  std::uint32_t dst = 0;
  std::uint32_t src = 0;
  std::uint32_t wgt = 0;
};

/// Encoder and decoder for one accelerator. A plain value; const functions are thread-safe.
class InstructionCodec {
 public:
  explicit InstructionCodec(const Accelerator& accelerator);

  /// kDevice for an unknown opcode or memory type, for an ALU operation that this accelerator lacks
  /// and for bits outside all fields.
  [[nodiscard]] Result<Instruction> decode(const InstructionWord& word) const;

  /// kInvalidArgument for a value that its field cannot hold; names field, value and maximum.
  [[nodiscard]] Result<InstructionWord> encode(const Instruction& instruction) const;

  [[nodiscard]] Uop decode_uop(std::uint32_t word) const {
    return {.dst = word & dst_mask_,
            .src = (word >> src_shift_) & src_mask_,
            .wgt = (word >> wgt_shift_) & wgt_mask_};
  }
  [[nodiscard]] Result<std::uint32_t> encode_uop(const Uop& uop) const;

  /// The fields of an opcode in bit order, opcode and token flags first.
  [[nodiscard]] std::span<const InstructionField> fields(Opcode opcode) const;

 private:
  [[nodiscard]] bool has(Extension extension) const;
  [[nodiscard]] Status check_operation(AluOp op) const;
  [[nodiscard]] bool has_third_type_bit() const;
  [[nodiscard]] Status check_memory(MemoryType type) const;

  std::array<std::vector<InstructionField>, 5> fields_;
  std::uint32_t extensions_;
  std::uint32_t dst_mask_, src_mask_, wgt_mask_, src_shift_, wgt_shift_;
};

/// The module whose command queue receives the instruction.
[[nodiscard]] Module module_of(const Instruction& instruction);

/// The name of an opcode, such as "LOAD".
[[nodiscard]] std::string_view to_string(Opcode opcode);
/// The name of an on-chip memory, such as "INP".
[[nodiscard]] std::string_view to_string(MemoryType type);
/// The name of an ALU operation, such as "ADD".
[[nodiscard]] std::string_view to_string(AluOp op);
/// The name of a module, such as "load".
[[nodiscard]] std::string_view to_string(Module module);

/// One line, e.g. "LOAD INP sram 0 dram 256 rows 8x16 stride 56 pad 1,0,1,0 [pop_next push_next]".
[[nodiscard]] std::string disassemble(const Instruction& instruction);

}  // namespace edgepipe
