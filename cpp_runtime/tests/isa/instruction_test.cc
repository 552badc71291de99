// The instruction codec: known bits, round trips and refusals.
#include "edgepipe/instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

TEST(InstructionCodec, DecodesALoadOfTheOldRevision) {
  // The first uop load of a program recorded from the HLS sources.
  const InstructionCodec codec({.revision = Revision::k0_0_1});
  const auto instruction = codec.decode({.low = 0x200000100, .high = 0x1111000800080008});
  ASSERT_TRUE(instruction.ok());
  EXPECT_EQ(disassemble(*instruction), "LOAD INP sram 0 dram 256 rows 8x8 stride 8 pad 1,1,1,1");
}

class EveryRevision : public ::testing::TestWithParam<Revision> {};

TEST_P(EveryRevision, DecodesWhatItEncodes) {
  const InstructionCodec codec({.revision = GetParam()});
  std::mt19937_64 random(7);
  for (const Opcode opcode :
       {Opcode::kLoad, Opcode::kStore, Opcode::kGemm, Opcode::kFinish, Opcode::kAlu}) {
    for (int round = 0; round < 200; ++round) {
      InstructionWord word;
      for (const InstructionField& field : codec.fields(opcode)) {
        std::uint64_t value = random() & ((std::uint64_t{1} << field.bits) - 1);
        if (field.name == "opcode") value = static_cast<std::uint64_t>(opcode);
        if (field.name == "memory_type") {
          value = opcode == Opcode::kLoad ? value % 4 : field.bits == 2 ? 0 : 4;
        }
        if (field.name == "alu_opcode") value %= 4;
        (field.word == 0 ? word.low : word.high) |= value << field.bit;
      }
      const auto instruction = codec.decode(word);
      ASSERT_TRUE(instruction.ok()) << instruction.status().message();
      const auto again = codec.encode(*instruction);
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(again->low, word.low);
      EXPECT_EQ(again->high, word.high);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, EveryRevision,
                         ::testing::Values(Revision::k0_0_1, Revision::k0_0_2));

constexpr auto kMultiplyOnly = static_cast<std::uint32_t>(Extension::kMultiply);
constexpr auto kAll = kMultiplyOnly | static_cast<std::uint32_t>(Extension::kRequantise) |
                      static_cast<std::uint32_t>(Extension::kLeaky);

TEST_P(EveryRevision, DecodesTheExtensionsOfAnAccelerator) {
  const InstructionCodec codec({.revision = GetParam(), .extensions = kAll});
  for (const AluOp op :
       {AluOp::kMin, AluOp::kShr, AluOp::kRequantise, AluOp::kMultiply, AluOp::kLeaky}) {
    const Instruction instruction{
        .opcode = Opcode::kAlu, .iter_out = 16383, .iter_in = 16383, .alu_opcode = op, .imm = -1};
    const auto word = codec.encode(instruction);
    ASSERT_TRUE(word.ok()) << word.status().message();
    const bool in_first_word = op > AluOp::kShr && GetParam() == Revision::k0_0_1;
    EXPECT_EQ(word->low >> 63, in_first_word ? 1U : 0U);
    const auto again = codec.decode(*word);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, instruction);
  }
}

TEST_P(EveryRevision, RefusesAnExtensionThatTheAcceleratorLacks) {
  const InstructionCodec able({.revision = GetParam(), .extensions = kAll});
  const InstructionCodec other({.revision = GetParam(), .extensions = kMultiplyOnly});
  const Instruction requantise{.opcode = Opcode::kAlu, .alu_opcode = AluOp::kRequantise};
  constexpr const char* kText =
      "ALU operation REQUANTISE is an extension that this accelerator lacks, expected an operation "
      "that it has";
  EXPECT_THAT(other.decode(*able.encode(requantise)).status().message(), HasSubstr(kText));
  EXPECT_THAT(other.encode(requantise).status().message(), HasSubstr(kText));
  const InstructionCodec stock({.revision = GetParam()});
  EXPECT_EQ(stock.decode(*able.encode(requantise)).status().code(), Code::kDevice);
}

constexpr auto kTableOnly = static_cast<std::uint32_t>(Extension::kTable);

TEST_P(EveryRevision, DecodesTheLoadOfATable) {
  const InstructionCodec codec({.revision = GetParam(), .extensions = kTableOnly});
  const Instruction load{.opcode = Opcode::kLoad,
                         .memory_type = MemoryType::kTable,
                         .sram_base = 0xffff,
                         .dram_base = 0xffff'ffff,
                         .y_size = 1,
                         .x_size = 64};
  const auto word = codec.encode(load);
  ASSERT_TRUE(word.ok()) << word.status().message();
  EXPECT_EQ(word->low >> 57, 1U);
  const auto again = codec.decode(*word);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, load);
  EXPECT_EQ(module_of(load), Module::kCompute);
}

TEST_P(EveryRevision, RefusesTheLoadOfATableThatTheAcceleratorLacks) {
  const InstructionCodec able({.revision = GetParam(), .extensions = kTableOnly});
  const InstructionCodec other({.revision = GetParam(), .extensions = kAll});
  const Instruction load{.opcode = Opcode::kLoad, .memory_type = MemoryType::kTable, .x_size = 1};
  EXPECT_EQ(other.decode(*able.encode(load)).status().code(), Code::kDevice);
  EXPECT_THAT(other.encode(load).status().message(),
              HasSubstr("LOAD with memory type 5, expected UOP 0, WGT 1, INP 2 or ACC 3"));
  const Instruction out{.opcode = Opcode::kLoad, .memory_type = MemoryType::kOut, .x_size = 1};
  EXPECT_THAT(able.encode(out).status().message(),
              HasSubstr("LOAD with memory type 4, expected UOP 0, WGT 1, INP 2, ACC 3 or TABLE 5"));
}

TEST_P(EveryRevision, DecodesALoadOfInt8Accumulators) {
  const InstructionCodec codec(
      {.revision = GetParam(), .extensions = static_cast<std::uint32_t>(Extension::kWiden)});
  const Instruction load{.opcode = Opcode::kLoad,
                         .memory_type = MemoryType::kAcc8,
                         .y_size = 2,
                         .x_size = 64,
                         .x_pad_1 = 3};
  const auto word = codec.encode(load);
  ASSERT_TRUE(word.ok()) << word.status().message();
  EXPECT_EQ(*codec.decode(*word), load);
  EXPECT_EQ(module_of(load), Module::kCompute);
  const Instruction table{.opcode = Opcode::kLoad, .memory_type = MemoryType::kTable};
  EXPECT_THAT(codec.encode(table).status().message(),
              HasSubstr("memory type 5, expected UOP 0, WGT 1, INP 2, ACC 3 or ACC8 6"));
}

TEST_P(EveryRevision, DecodesWhatPadsHold) {
  const InstructionCodec codec(
      {.revision = GetParam(), .extensions = static_cast<std::uint32_t>(Extension::kPadValue)});
  for (const std::int32_t value : {-32, -1, 0, 31}) {
    const Instruction load{.opcode = Opcode::kLoad,
                           .memory_type = MemoryType::kInp,
                           .dram_base = 0xffff'ffff,
                           .x_pad_0 = 1,
                           .pad_value = value};
    const auto word = codec.encode(load);
    ASSERT_TRUE(word.ok()) << word.status().message();
    EXPECT_EQ(*codec.decode(*word), load);
    const InstructionCodec stock({.revision = GetParam()});
    if (value == 0) continue;
    EXPECT_EQ(stock.decode(*word).status().code(), Code::kDevice);
    EXPECT_THAT(stock.encode(load).status().message(),
                HasSubstr("expected 0 for an accelerator without the extension pad_value"));
  }
  EXPECT_THAT(codec.encode({.opcode = Opcode::kLoad, .pad_value = 32}).status().message(),
              HasSubstr("pad_value is 32, expected -32 to 31"));
}

TEST(InstructionCodec, AnExtensionIsDisassembledWithItsBounds) {
  EXPECT_EQ(disassemble({.opcode = Opcode::kAlu, .alu_opcode = AluOp::kRequantise, .imm = 32640}),
            "ALU REQUANTISE vector imm 32640 uop [0,0) loops 0x0 dst +0,+0 src +0,+0");
  EXPECT_EQ(disassemble({.opcode = Opcode::kAlu, .alu_opcode = AluOp::kLeaky, .imm = 26}),
            "ALU LEAKY vector imm 26 uop [0,0) loops 0x0 dst +0,+0 src +0,+0");
  EXPECT_THAT(disassemble({.opcode = Opcode::kLoad,
                           .memory_type = MemoryType::kAcc8,
                           .x_pad_0 = 1,
                           .pad_value = -32}),
              AllOf(HasSubstr("LOAD ACC8"), HasSubstr("pad 0,0,1,0 of -128")));
}

TEST(InstructionCodec, RefusesAValueThatDoesNotFit) {
  const InstructionCodec codec(Accelerator{});
  const auto word = codec.encode({.opcode = Opcode::kGemm, .iter_in = 16384});
  EXPECT_EQ(word.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(word.status().message(),
              HasSubstr("iter_in is 16384, the field holds at most 16383"));
  EXPECT_FALSE(codec.encode({.opcode = Opcode::kAlu, .use_imm = 1, .imm = 40000}).ok());
}

TEST(InstructionCodec, ImmediatesAreSigned) {
  const InstructionCodec codec(Accelerator{});
  const auto word = codec.encode({.opcode = Opcode::kAlu, .use_imm = 1, .imm = -128});
  ASSERT_TRUE(word.ok());
  EXPECT_EQ(codec.decode(*word)->imm, -128);
}

TEST(InstructionCodec, RefusesMemoryTypesThatTheHardwareIgnores) {
  const InstructionCodec codec({.revision = Revision::k0_0_2});
  EXPECT_THAT(codec.decode({.low = 5 << 7, .high = 0}).status().message(),
              HasSubstr("LOAD with memory type 5, expected UOP 0, WGT 1, INP 2 or ACC 3"));
  EXPECT_THAT(codec.decode({.low = 1, .high = 0}).status().message(),
              HasSubstr("STORE with memory type 0, expected 4"));
}

TEST(InstructionCodec, UopFieldsFollowTheBuffers) {
  const InstructionCodec codec(Accelerator{});
  const auto word = codec.encode_uop({.dst = 2047, .src = 1, .wgt = 1023});
  ASSERT_TRUE(word.ok());
  EXPECT_EQ(*word, 2047U | 1U << 11 | 1023U << 22);
  EXPECT_EQ(codec.decode_uop(*word).wgt, 1023U);
  EXPECT_FALSE(codec.encode_uop({.dst = 2048}).ok());
}

}  // namespace
}  // namespace edgepipe
