#include "edgepipe/instruction.h"

#include <algorithm>

#include "isa/log2.h"

namespace edgepipe {
namespace {

// How the codec accesses a field of the struct. Enums and the signed immediate are stored as 32-bit
// values, so one pair of functions per field is enough for decoding, encoding and checking.
struct Access {
  std::string_view name;
  std::uint32_t (*get)(const Instruction&);
  void (*set)(Instruction&, std::uint32_t);
};

template <auto Member>
constexpr Access access(std::string_view name) {
  return {.name = name,
          .get = [](const Instruction& i) { return static_cast<std::uint32_t>(i.*Member); },
          .set =
              [](Instruction& i, std::uint32_t value) {
                i.*Member = static_cast<std::remove_reference_t<decltype(i.*Member)>>(value);
              }};
}

constexpr std::array kAccess{
    access<&Instruction::opcode>("opcode"),
    access<&Instruction::pop_prev>("pop_prev_dep"),
    access<&Instruction::pop_next>("pop_next_dep"),
    access<&Instruction::push_prev>("push_prev_dep"),
    access<&Instruction::push_next>("push_next_dep"),
    access<&Instruction::memory_type>("memory_type"),
    // Bit 2 of memory_type, where revision 0.0.1 has it. It comes after the bits below it.
    Access{
        .name = "memory_type_high",
        .get = [](const Instruction& i) { return static_cast<std::uint32_t>(i.memory_type) >> 2; },
        .set =
            [](Instruction& i, std::uint32_t value) {
              i.memory_type =
                  static_cast<MemoryType>(static_cast<std::uint32_t>(i.memory_type) | value << 2);
            }},
    access<&Instruction::sram_base>("sram_base"),
    access<&Instruction::dram_base>("dram_base"),
    access<&Instruction::pad_value>("pad_value"),
    access<&Instruction::y_size>("y_size"),
    access<&Instruction::x_size>("x_size"),
    access<&Instruction::x_stride>("x_stride"),
    access<&Instruction::y_pad_0>("y_pad_0"),
    access<&Instruction::y_pad_1>("y_pad_1"),
    access<&Instruction::x_pad_0>("x_pad_0"),
    access<&Instruction::x_pad_1>("x_pad_1"),
    access<&Instruction::reset>("reset"),
    access<&Instruction::uop_begin>("uop_bgn"),
    access<&Instruction::uop_end>("uop_end"),
    access<&Instruction::iter_out>("iter_out"),
    access<&Instruction::iter_in>("iter_in"),
    access<&Instruction::dst_factor_out>("dst_factor_out"),
    access<&Instruction::dst_factor_in>("dst_factor_in"),
    access<&Instruction::src_factor_out>("src_factor_out"),
    access<&Instruction::src_factor_in>("src_factor_in"),
    access<&Instruction::wgt_factor_out>("wgt_factor_out"),
    access<&Instruction::wgt_factor_in>("wgt_factor_in"),
    access<&Instruction::alu_opcode>("alu_opcode"),
    // Bit 2 of alu_opcode, where revision 0.0.1 has it. It comes before the bits below it.
    Access{
        .name = "alu_opcode_high",
        .get = [](const Instruction& i) { return static_cast<std::uint32_t>(i.alu_opcode) >> 2; },
        .set = [](Instruction& i,
                  std::uint32_t value) { i.alu_opcode = static_cast<AluOp>(value << 2); }},
    access<&Instruction::use_imm>("use_imm"),
    access<&Instruction::imm>("imm"),
};

std::uint32_t access_index(std::string_view name) {
  std::uint32_t index = 0;
  while (kAccess[index].name != name) ++index;  // the table below uses only names of kAccess
  return index;
}

std::uint64_t mask(std::uint32_t bits) { return (std::uint64_t{1} << bits) - 1; }

constexpr std::uint32_t kPadValueBits = 6;  // all that the low half of a LOAD has left
constexpr std::int32_t kMostPadValue = (1 << (kPadValueBits - 1)) - 1;

}  // namespace

std::optional<Extension> extension_of(AluOp op) {
  if (op == AluOp::kRequantise) return Extension::kRequantise;
  if (op == AluOp::kMultiply) return Extension::kMultiply;
  if (op == AluOp::kTable) return Extension::kTable;
  if (op == AluOp::kLeaky) return Extension::kLeaky;
  return std::nullopt;
}

InstructionCodec::InstructionCodec(const Accelerator& accelerator)
    : extensions_(accelerator.extensions) {
  const std::uint32_t uop = accelerator.uop_bits();
  const std::uint32_t inp = log2_of(accelerator.inp_depth());
  const std::uint32_t wgt = log2_of(accelerator.wgt_depth());
  const std::uint32_t acc = log2_of(accelerator.acc_depth());
  const std::uint32_t type_bits = accelerator.revision == Revision::k0_0_1 ? 2 : 3;

  // The instruction table: {name, bits} from bit 0 up; an empty name continues at bit 64.
  using Row = std::pair<std::string_view, std::uint32_t>;
  const auto end_of_low = [](std::vector<Row>& rows) {
    return std::ranges::find(rows, "", &Row::first);
  };
  const std::vector<Row> head{{"opcode", 3},
                              {"pop_prev_dep", 1},
                              {"pop_next_dep", 1},
                              {"push_prev_dep", 1},
                              {"push_next_dep", 1}};
  const std::vector<Row> memory{{"memory_type", type_bits},
                                {"sram_base", 16},
                                {"dram_base", 32},
                                {"", 0},
                                {"y_size", 16},
                                {"x_size", 16},
                                {"x_stride", 16},
                                {"y_pad_0", 4},
                                {"y_pad_1", 4},
                                {"x_pad_0", 4},
                                {"x_pad_1", 4}};
  std::vector<Row> load = memory;
  if (has_third_type_bit() && type_bits == 2) load.emplace(end_of_low(load), "memory_type_high", 1);
  if (has(Extension::kPadValue)) load.emplace(end_of_low(load), "pad_value", kPadValueBits);
  std::vector<Row> loops{{"reset", 1},
                         {"uop_bgn", uop},
                         {"uop_end", uop + 1},
                         {"iter_out", 14},
                         {"iter_in", 14},
                         {"", 0},
                         {"dst_factor_out", acc},
                         {"dst_factor_in", acc},
                         {"src_factor_out", inp},
                         {"src_factor_in", inp}};
  std::vector<Row> gemm = loops;
  gemm.insert(gemm.end(), {{"wgt_factor_out", wgt}, {"wgt_factor_in", wgt}});
  std::vector<Row> alu = loops;
  // The extensions' operations have a third bit, for which revision 0.0.1 has no room there.
  if (extensions_ != 0 && type_bits == 2) {
    alu.emplace(end_of_low(alu), "alu_opcode_high", 1);
  }
  alu.insert(alu.end(), {{"alu_opcode", type_bits}, {"use_imm", 1}, {"imm", 16}});

  const auto place = [&](Opcode opcode, const std::vector<Row>& body) {
    auto& fields = fields_[static_cast<std::size_t>(opcode)];
    std::uint32_t word = 0;
    std::uint32_t bit = 0;
    for (const auto* rows : {&head, &body}) {
      for (const auto& [name, bits] : *rows) {
        if (name.empty()) {
          word = 1;
          bit = 0;
          continue;
        }
        fields.push_back(
            {.name = name, .word = word, .bit = bit, .bits = bits, .member = access_index(name)});
        bit += bits;
      }
    }
  };
  place(Opcode::kLoad, load);
  place(Opcode::kStore, memory);
  place(Opcode::kGemm, gemm);
  place(Opcode::kFinish, {});
  place(Opcode::kAlu, alu);

  dst_mask_ = static_cast<std::uint32_t>(mask(acc));
  src_mask_ = static_cast<std::uint32_t>(mask(inp));
  wgt_mask_ = static_cast<std::uint32_t>(mask(wgt));
  src_shift_ = acc;
  wgt_shift_ = acc + inp;
}

std::span<const InstructionField> InstructionCodec::fields(Opcode opcode) const {
  return fields_[static_cast<std::size_t>(opcode)];
}

Result<Instruction> InstructionCodec::decode(const InstructionWord& word) const {
  const auto opcode = static_cast<std::uint32_t>(word.low & 7);
  if (opcode >= fields_.size()) {
    return Status(Code::kDevice, "opcode " + std::to_string(opcode) + " does not exist");
  }
  Instruction instruction;
  std::array<std::uint64_t, 2> rest{word.low, word.high};
  for (const InstructionField& field : fields_[opcode]) {
    const auto value = static_cast<std::uint32_t>(rest[field.word] >> field.bit & mask(field.bits));
    rest[field.word] &= ~(mask(field.bits) << field.bit);
    const bool is_low_part = field.name == "alu_opcode" && field.bits == 2;
    const std::uint32_t high = is_low_part ? kAccess[field.member].get(instruction) : 0;
    kAccess[field.member].set(instruction, high | value);
  }
  instruction.imm = static_cast<std::int16_t>(instruction.imm);
  if (instruction.pad_value > kMostPadValue) instruction.pad_value -= 1 << kPadValueBits;
  if (rest[0] != 0 || rest[1] != 0) {
    return Status(Code::kDevice, disassemble(instruction) + ": bits outside the instruction's " +
                                     "fields are set, expected 0 (wrong encoding revision?)");
  }
  // Revision 0.0.1 has no room for OUT = 4 and writes 0; both revisions read back as OUT.
  if (instruction.opcode == Opcode::kStore) {
    const std::uint32_t expected = fields_[opcode][5].bits == 2 ? 0 : 4;
    if (static_cast<std::uint32_t>(instruction.memory_type) != expected) {
      return Status(Code::kDevice,
                    "STORE with memory type " +
                        std::to_string(static_cast<std::uint32_t>(instruction.memory_type)) +
                        ", expected " + std::to_string(expected));
    }
    instruction.memory_type = MemoryType::kOut;
  }
  if (instruction.opcode == Opcode::kLoad) {
    if (Status status = check_memory(instruction.memory_type); !status.ok()) return status;
  }
  if (Status status = check_operation(instruction.alu_opcode); !status.ok()) return status;
  return instruction;
}

bool InstructionCodec::has(Extension extension) const {
  return (extensions_ & static_cast<std::uint32_t>(extension)) != 0;
}

bool InstructionCodec::has_third_type_bit() const {
  return has(Extension::kTable) || has(Extension::kWiden);
}

Status InstructionCodec::check_memory(MemoryType type) const {
  const bool table = has(Extension::kTable);
  const bool widen = has(Extension::kWiden);
  if (type <= MemoryType::kAcc || (table && type == MemoryType::kTable) ||
      (widen && type == MemoryType::kAcc8)) {
    return {};
  }
  std::vector<MemoryType> known{MemoryType::kUop, MemoryType::kWgt, MemoryType::kInp,
                                MemoryType::kAcc};
  if (table) known.push_back(MemoryType::kTable);
  if (widen) known.push_back(MemoryType::kAcc8);
  std::string names;
  for (const MemoryType one : known) {
    if (one != known.front()) names += one == known.back() ? " or " : ", ";
    names += std::string(to_string(one)) + " " + std::to_string(static_cast<std::uint32_t>(one));
  }
  return {Code::kDevice, "LOAD with memory type " +
                             std::to_string(static_cast<std::uint32_t>(type)) + ", expected " +
                             names};
}

Status InstructionCodec::check_operation(AluOp op) const {
  if (op > AluOp::kLeaky) {
    return {Code::kDevice, "ALU operation " + std::to_string(static_cast<std::uint32_t>(op)) +
                               " does not exist, expected MIN 0, MAX 1, ADD 2 or SHR 3"};
  }
  const std::optional<Extension> needed = extension_of(op);
  if (!needed || has(*needed)) return {};
  return {Code::kDevice, "ALU operation " + std::string(to_string(op)) +
                             " is an extension that this accelerator lacks, expected an operation "
                             "that it has"};
}

Result<InstructionWord> InstructionCodec::encode(const Instruction& instruction) const {
  if (Status status = check_operation(instruction.alu_opcode); !status.ok()) {
    return Status(Code::kInvalidArgument, status.message());
  }
  if (instruction.opcode == Opcode::kLoad) {
    if (Status status = check_memory(instruction.memory_type); !status.ok()) {
      return Status(Code::kInvalidArgument, status.message());
    }
  }
  if (instruction.pad_value != 0 && !has(Extension::kPadValue)) {
    return Status(Code::kInvalidArgument,
                  disassemble(instruction) + ": pad_value is " +
                      std::to_string(instruction.pad_value) +
                      ", expected 0 for an accelerator without the extension pad_value");
  }
  std::array<std::uint64_t, 2> words{};
  for (const InstructionField& field : fields(instruction.opcode)) {
    std::uint32_t value = kAccess[field.member].get(instruction);
    if (field.name == "imm") {
      if (instruction.imm < -32768 || instruction.imm > 32767) {
        return Status(Code::kInvalidArgument,
                      disassemble(instruction) + ": imm, expected -32768 to 32767");
      }
      value &= 0xffff;
    }
    if (field.name == "pad_value") {
      if (instruction.pad_value < -kMostPadValue - 1 || instruction.pad_value > kMostPadValue) {
        return Status(Code::kInvalidArgument, disassemble(instruction) + ": pad_value is " +
                                                  std::to_string(instruction.pad_value) +
                                                  ", expected -32 to 31");
      }
      value &= static_cast<std::uint32_t>(mask(kPadValueBits));
    }
    if (field.name == "alu_opcode" || field.name == "memory_type")
      value &= static_cast<std::uint32_t>(mask(field.bits));
    if (field.name == "memory_type" && instruction.opcode == Opcode::kStore) {
      value = field.bits == 2 ? 0 : 4;
    }
    if (value > mask(field.bits)) {
      return Status(Code::kInvalidArgument,
                    disassemble(instruction) + ": " + std::string(field.name) + " is " +
                        std::to_string(value) + ", the field holds at most " +
                        std::to_string(mask(field.bits)));
    }
    words[field.word] |= std::uint64_t{value} << field.bit;
  }
  return InstructionWord{.low = words[0], .high = words[1]};
}

Result<std::uint32_t> InstructionCodec::encode_uop(const Uop& uop) const {
  if (uop.dst > dst_mask_ || uop.src > src_mask_ || uop.wgt > wgt_mask_) {
    return Status(Code::kInvalidArgument,
                  "uop dst " + std::to_string(uop.dst) + " src " + std::to_string(uop.src) +
                      " wgt " + std::to_string(uop.wgt) + ", at most " + std::to_string(dst_mask_) +
                      ", " + std::to_string(src_mask_) + ", " + std::to_string(wgt_mask_));
  }
  return uop.dst | uop.src << src_shift_ | uop.wgt << wgt_shift_;
}

Module module_of(const Instruction& instruction) {
  if (instruction.opcode == Opcode::kStore) return Module::kStore;
  const bool loads_tiles =
      instruction.memory_type == MemoryType::kInp || instruction.memory_type == MemoryType::kWgt;
  return instruction.opcode == Opcode::kLoad && loads_tiles ? Module::kLoad : Module::kCompute;
}

}  // namespace edgepipe
