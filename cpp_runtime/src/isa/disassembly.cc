#include "edgepipe/instruction.h"

namespace edgepipe {
namespace {

std::string number(std::uint32_t value) { return std::to_string(value); }

std::string memory_text(const Instruction& i) {
  std::string text = std::string(to_string(i.memory_type)) + " sram " + number(i.sram_base) +
                     " dram " + number(i.dram_base) + " rows " + number(i.y_size) + "x" +
                     number(i.x_size) + " stride " + number(i.x_stride);
  if ((i.y_pad_0 | i.y_pad_1 | i.x_pad_0 | i.x_pad_1) != 0) {
    text += " pad " + number(i.y_pad_0) + "," + number(i.y_pad_1) + "," + number(i.x_pad_0) + "," +
            number(i.x_pad_1);
    if (i.pad_value != 0) text += " of " + std::to_string(kPadUnit * i.pad_value);
  }
  return text;
}

std::string loop_text(const Instruction& i) {
  return "uop [" + number(i.uop_begin) + "," + number(i.uop_end) + ") loops " + number(i.iter_out) +
         "x" + number(i.iter_in) + " dst +" + number(i.dst_factor_out) + ",+" +
         number(i.dst_factor_in) + " src +" + number(i.src_factor_out) + ",+" +
         number(i.src_factor_in);
}

/// Whether an operation has the bounds of a REQUANTISE in its immediate.
bool requantises(AluOp op) { return op == AluOp::kRequantise || op == AluOp::kTable; }

std::string operand_text(const Instruction& i) {
  if (i.use_imm != 0) return " imm " + std::to_string(i.imm);
  // Here the immediate has the bounds, or the shifts.
  const bool has_both = requantises(i.alu_opcode) || i.alu_opcode == AluOp::kLeaky;
  return has_both ? " vector imm " + std::to_string(i.imm) : " vector";
}

std::string token_text(const Instruction& i) {
  std::string text;
  if (i.pop_prev != 0) text += " pop_prev";
  if (i.pop_next != 0) text += " pop_next";
  if (i.push_prev != 0) text += " push_prev";
  if (i.push_next != 0) text += " push_next";
  return text.empty() ? text : " [" + text.substr(1) + "]";
}

}  // namespace

std::string_view to_string(Opcode opcode) {
  constexpr std::array<std::string_view, 5> kNames{"LOAD", "STORE", "GEMM", "FINISH", "ALU"};
  const auto index = static_cast<std::size_t>(opcode);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string_view to_string(MemoryType type) {
  constexpr std::array<std::string_view, 7> kNames{"UOP", "WGT",   "INP", "ACC",
                                                   "OUT", "TABLE", "ACC8"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string_view to_string(AluOp op) {
  constexpr std::array<std::string_view, 8> kNames{"MIN",        "MAX",      "ADD",   "SHR",
                                                   "REQUANTISE", "MULTIPLY", "TABLE", "LEAKY"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string_view to_string(Module module) {
  constexpr std::array<std::string_view, kModules> kNames{"load", "compute", "store"};
  return kNames[static_cast<std::size_t>(module)];
}

std::string disassemble(const Instruction& i) {
  std::string text(to_string(i.opcode));
  switch (i.opcode) {
    case Opcode::kLoad:
    case Opcode::kStore:
      text += " " + memory_text(i);
      break;
    case Opcode::kGemm:
      text += (i.reset != 0 ? " reset " : " ") + loop_text(i) + " wgt +" +
              number(i.wgt_factor_out) + ",+" + number(i.wgt_factor_in);
      break;
    case Opcode::kAlu:
      text += " " + std::string(to_string(i.alu_opcode)) + operand_text(i) + " " + loop_text(i);
      break;
    case Opcode::kFinish:
      break;
  }
  return text + token_text(i);
}

}  // namespace edgepipe
