// The simulator's results with every GEMM kernel of this machine, and its state between runs.
#include "simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "simulator/alu.h"
#include "simulator/gemm_kernel.h"
#include "support/accelerators.h"
#include "support/vta_program.h"

namespace edgepipe {
namespace {

using ::edgepipe::testing::four_by_eight;
using ::edgepipe::testing::VtaProgram;
using ::testing::HasSubstr;

Accelerator stock() { return {}; }

void fill_randomly(std::int8_t* begin, std::size_t bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::size_t n = 0; n < bytes; ++n) begin[n] = static_cast<std::int8_t>(random());
}

void expect_product(VtaProgram& p) {
  p.fill(1);
  const Status status = p.run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(p.output(), p.product());
}

TEST(Simulator, TwoAcceleratorsLiveInOneProcess) {
  VtaProgram first(stock());
  VtaProgram second(four_by_eight());
  expect_product(first);
  expect_product(second);
}

TEST(Simulator, RefusesAnUnknownKernel) {
  VtaProgram p;
  const auto simulator = Simulator::create(stock(), *p.memory, {.kernel = "abacus"});
  EXPECT_EQ(simulator.status().code(), Code::kUnsupported);
  EXPECT_THAT(simulator.status().message(), HasSubstr("portable"));
}

TEST(Simulator, ChecksAgainWhenUopsInMemoryChange) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  const std::uint32_t uop = *InstructionCodec(p.accelerator).encode_uop({.dst = 0, .src = 3});
  std::memcpy(p.data.data(), &uop, sizeof(uop));
  EXPECT_THAT(p.run().message(), HasSubstr("reads inp entry 3"));
}

TEST(Simulator, ChecksAgainWhenAnAllocationIsGone) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  p.data = Buffer();
  EXPECT_THAT(p.run().message(), HasSubstr("is not inside one allocation"));
}

TEST(Simulator, KeepsItsVerdictWhileOtherAllocationsComeAndGo) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  const Buffer other = *p.memory->allocate(100);
  EXPECT_TRUE(p.run().ok());
}

TEST(Simulator, StopsAtTheDeadline) {
  VtaProgram p;
  p.time_limit = -std::chrono::seconds(1);
  EXPECT_EQ(p.run().code(), Code::kDeadline);
}

// 2^31 steps: neither the check nor the run may take as long as all of them would.
TEST(Simulator, StopsAtTheDeadlineWithinAnInstruction) {
  constexpr std::uint32_t kUops = 8;
  VtaProgram p;
  for (std::uint32_t n = 0; n < kUops; ++n) {
    const std::uint32_t uop = *InstructionCodec(p.accelerator).encode_uop({.dst = n});
    std::memcpy(p.data.data() + VtaProgram::kUopOffset + n * sizeof(uop), &uop, sizeof(uop));
  }
  p.instructions.front().x_size = kUops;
  const std::uint32_t most = (1U << 14) - 1;
  p.insert(
      1,
      {.opcode = Opcode::kGemm, .reset = 1, .uop_end = kUops, .iter_out = most, .iter_in = most});
  p.time_limit = std::chrono::milliseconds(20);
  const Clock::time_point began = Clock::now();
  const Status status = p.run();
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_THAT(status.message(), HasSubstr("simulator: deadline passed after "));
  EXPECT_THAT(status.message(), HasSubstr(" instructions, in GEMM"));
}

TEST(Simulator, RefusesMisalignedInstructions) {
  VtaProgram p;
  const Status status = p.simulator->run({.address = p.data.device_address() + 8, .count = 1});
  EXPECT_THAT(status.message(), HasSubstr("is not a multiple of 16"));
}

// ---- kernels -----------------------------------------------------------------------------------

class EveryKernel : public ::testing::TestWithParam<std::uint32_t> {};  // the batch

// All kernels agree on random tiles, with the extremes of int8 and an accumulator that wraps.
TEST_P(EveryKernel, GivesThePortableKernelsBits) {
  const Accelerator accelerator{.batch = GetParam()};
  constexpr std::uint32_t kTiles = 8;
  std::vector<std::int8_t> inp(kTiles * accelerator.inp_bytes());
  std::vector<std::int8_t> wgt(kTiles * accelerator.wgt_bytes());
  fill_randomly(inp.data(), inp.size(), 3);
  fill_randomly(wgt.data(), wgt.size(), 4);
  std::fill_n(inp.begin(), accelerator.inp_bytes(), std::int8_t{-128});
  std::fill_n(wgt.begin(), accelerator.wgt_bytes(), std::int8_t{-128});
  std::vector<Uop> uops;
  for (std::uint32_t n = 0; n < 4; ++n) uops.push_back({.dst = n, .src = (n * 3) % 4, .wgt = n});
  const Instruction instruction{.opcode = Opcode::kGemm,
                                .uop_end = 4,
                                .iter_out = 2,
                                .iter_in = 2,
                                .dst_factor_out = 2,
                                .dst_factor_in = 1,
                                .src_factor_out = 3,
                                .src_factor_in = 1,
                                .wgt_factor_out = 1,
                                .wgt_factor_in = 2};
  std::vector<std::vector<std::int32_t>> results;
  for (const GemmKernel& kernel : gemm_kernels(accelerator)) {
    std::vector<std::byte> packed_inp(kTiles * kernel.inp_bytes);
    std::vector<std::byte> packed_wgt(kTiles * kernel.wgt_bytes);
    for (std::size_t n = 0; n < kTiles; ++n) {
      kernel.pack_inp(accelerator, inp.data() + n * accelerator.inp_bytes(),
                      packed_inp.data() + n * kernel.inp_bytes);
      kernel.pack_wgt(accelerator, wgt.data() + n * accelerator.wgt_bytes(),
                      packed_wgt.data() + n * kernel.wgt_bytes);
    }
    const auto run = [&](const std::vector<Iterations>& pieces) {
      std::vector<std::int32_t> acc(kTiles * accelerator.out_bytes(), 0x7fff'0000);
      for (const Iterations piece : pieces) {
        kernel.run({.accelerator = accelerator,
                    .instruction = instruction,
                    .iterations = piece,
                    .uops = uops.data(),
                    .inp = packed_inp.data(),
                    .wgt = packed_wgt.data(),
                    .acc = acc.data()});
      }
      return acc;
    };
    results.push_back(run({all_iterations(instruction)}));
    EXPECT_EQ(results.back(), results.front()) << kernel.name;
    EXPECT_EQ(run({{0, 1}, {1, 1}, {1, 4}}), results.front()) << kernel.name << " in pieces";
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, EveryKernel, ::testing::Values(1U, 2U, 4U));

// ---- ALU ---------------------------------------------------------------------------------------

std::int32_t alu(AluOp op, std::int32_t value, std::int32_t imm) {
  const Uop uop{};
  const Instruction instruction = VtaProgram::alu(op, imm);
  const Accelerator one_lane{.block_in = 1, .block_out = 1};
  run_alu(instruction, all_iterations(instruction), &uop, one_lane, &value);
  return value;
}

/// The first of two entries with one lane each after an ALU step that may read the second.
std::int32_t alu_on_two(Implementation implementation, AluOp op, bool use_imm, std::int32_t imm,
                        std::array<std::int32_t, 2> acc) {
  const Uop uop{.dst = 0, .src = 1};
  Instruction instruction = VtaProgram::alu(op, imm);
  instruction.use_imm = use_imm ? 1 : 0;
  const Accelerator one_lane{.block_in = 1, .block_out = 1, .implementation = implementation};
  run_alu(instruction, all_iterations(instruction), &uop, one_lane, acc.data());
  return acc[0];
}

TEST(Alu, ImplementationsReadTheOperandOfAnImmediateAtDstOrAtSrc) {
  for (const auto either : {Implementation::kUnknown, Implementation::kHls}) {
    EXPECT_EQ(alu_on_two(either, AluOp::kAdd, true, 5, {100, 7}), 105);
  }
  EXPECT_EQ(alu_on_two(Implementation::kChisel, AluOp::kAdd, true, 5, {100, 7}), 12);
}

TEST(Alu, ANegativeLaneShiftsLeftOnlyInOneImplementation) {
  EXPECT_EQ(alu_on_two(Implementation::kHls, AluOp::kShr, false, 0, {3, -1}), 6);
  EXPECT_EQ(alu_on_two(Implementation::kUnknown, AluOp::kShr, false, 0, {3, -1}), 6);
  EXPECT_EQ(alu_on_two(Implementation::kChisel, AluOp::kShr, false, 0, {3, -1}), 0);
  EXPECT_EQ(alu_on_two(Implementation::kChisel, AluOp::kShr, false, 0, {1 << 30, 30}), 1);
  EXPECT_EQ(alu_on_two(Implementation::kChisel, AluOp::kShr, true, -1, {0, 3}), 6);
}

TEST(Alu, ShiftTakesFiveSignedBits) {
  EXPECT_EQ(alu(AluOp::kShr, -5, 1), -3);
  EXPECT_EQ(alu(AluOp::kShr, 1 << 20, 15), 1 << 5);
  EXPECT_EQ(alu(AluOp::kShr, 3, 16), 3 << 16);  // 16 means -16
  EXPECT_EQ(alu(AluOp::kShr, 3, -1), 6);
  EXPECT_EQ(alu(AluOp::kShr, 64, 32 + 3), 8);  // higher bits do not count
}

TEST(Alu, AdditionWraps) { EXPECT_EQ(alu(AluOp::kAdd, 0x7fff'ffff, 1), -0x7fff'ffff - 1); }

constexpr std::int32_t bounds(std::int32_t low, std::int32_t high) {
  return (low & 0xff) | (high * 256);
}

std::int32_t requantise(std::int32_t value, std::int32_t lane, std::int32_t imm) {
  return alu_on_two(Implementation::kUnknown, AluOp::kRequantise, false, imm, {value, lane});
}

TEST(Alu, RequantiseAddsShiftsAndClips) {
  const std::int32_t all = bounds(-128, 127);
  EXPECT_EQ(requantise(1000, 8 * 32 + 4, all), 63);  // (1000 + 8) >> 4
  EXPECT_EQ(requantise(-1001, -7 * 32 + 4, all), -63);
  EXPECT_EQ(requantise(5000, 0, all), 127);
  EXPECT_EQ(requantise(-5000, 0, all), -128);
  EXPECT_EQ(requantise(-5, 0, bounds(0, 6)), 0);
  EXPECT_EQ(requantise(7, 0, bounds(0, 6)), 6);
  EXPECT_EQ(requantise(7, 0, bounds(6, -6)), -6);  // the upper bound comes last
  EXPECT_EQ(requantise(-0x7fff'ffff - 1, 31, all), -1);
  EXPECT_EQ(requantise(0x7fff'ffff, 1 * 32 + 31, all), -1);  // the sum wraps
}

TEST(Alu, RequantiseTakesTheDistanceFromAnImmediate) {
  EXPECT_EQ(alu(AluOp::kRequantise, 1000, bounds(-128 + 4, 127)), 62);
  EXPECT_EQ(alu(AluOp::kRequantise, 5000, bounds(-128 + 4, 127)), 127);
  EXPECT_EQ(alu(AluOp::kRequantise, -5000, bounds(-128 + 4, 127)), -128);
  EXPECT_EQ(alu(AluOp::kRequantise, -5000, bounds(0 + 31, 127)), 0);
}

TEST(Alu, MultiplyTakesSixteenSignedBits) {
  const auto multiply = [](std::int32_t a, std::int32_t b) {
    return alu_on_two(Implementation::kUnknown, AluOp::kMultiply, false, 0, {a, b});
  };
  EXPECT_EQ(multiply(-7, 300), -2100);
  EXPECT_EQ(multiply(-32768, -32768), 1 << 30);
  EXPECT_EQ(multiply(0x1'8000, 2), -65536);
  EXPECT_EQ(alu(AluOp::kMultiply, 100, -3), -300);
}

TEST(Alu, TableLeavesTheRequantisedValueInAcc) {
  EXPECT_EQ(alu(AluOp::kTable, 1000, bounds(-128 + 4, 127)), 62);
  EXPECT_EQ(alu_on_two(Implementation::kUnknown, AluOp::kTable, false, bounds(-128, 127),
                       {1000, 8 * 32 + 4}),
            63);
}

// An addition of 0 after it writes acc's low bits to out again, which are not what is there.
TEST(Simulator, StoresWhatTheTableHasUntilAccIsWrittenAgain) {
  for (const bool again : {false, true}) {
    VtaProgram p({.extensions = static_cast<std::uint32_t>(Extension::kTable)});
    p.fill(1);
    std::fill_n(p.int8_at(VtaProgram::kWgtOffset), 256, std::int8_t{0});
    for (int n = 0; n < 16; ++n) p.int8_at(VtaProgram::kWgtOffset)[17 * n] = 1;
    auto* const table = p.data.data() + 1024;
    for (int n = 0; n < 256; ++n) table[n] = static_cast<std::byte>(255 - n);
    Instruction look_up = VtaProgram::alu(AluOp::kTable, bounds(-128, 127));
    look_up.push_next = std::exchange(p.instructions[VtaProgram::kStore - 1].push_next, 0);
    if (again) look_up.push_next = 0;
    p.insert(VtaProgram::kStore, look_up);
    if (again) {
      Instruction same = VtaProgram::alu(AluOp::kAdd, 0);
      same.push_next = 1;
      p.insert(VtaProgram::kStore + 1, same);
    }
    p.insert(VtaProgram::kStore, {.opcode = Opcode::kLoad,
                                  .memory_type = MemoryType::kTable,
                                  .dram_base = p.element(MemoryType::kTable, 1024),
                                  .y_size = 1,
                                  .x_size = 64});
    const Status status = p.run();
    ASSERT_TRUE(status.ok()) << status.message();
    auto expected = p.product();
    for (auto& value : expected) value = again ? value : static_cast<std::int8_t>(-1 - value);
    EXPECT_EQ(p.output(), expected);
  }
}

// A second instruction finds zeros, and the out buffer still has the first one's result.
TEST(Simulator, AnAluInstructionWithResetLeavesZerosInAcc) {
  for (const bool twice : {false, true}) {
    VtaProgram p({.extensions = static_cast<std::uint32_t>(Extension::kClear)});
    p.fill(1);
    Instruction clear = VtaProgram::alu(AluOp::kAdd, 3);
    clear.reset = 1;
    clear.push_next = std::exchange(p.instructions[VtaProgram::kStore - 1].push_next, 0);
    Instruction again = VtaProgram::alu(AluOp::kMax, -5);
    again.push_next = std::exchange(clear.push_next, twice ? 0 : 1);
    p.insert(VtaProgram::kStore, clear);
    if (twice) p.insert(VtaProgram::kStore + 1, again);
    const Status status = p.run();
    ASSERT_TRUE(status.ok()) << status.message();
    auto expected = p.product();
    for (auto& value : expected)
      value = twice ? std::int8_t{0} : static_cast<std::int8_t>(value + 3);
    EXPECT_EQ(p.output(), expected);
  }
}

// An addition of 0 after the LOAD writes the low bits of acc to out.
TEST(Simulator, LoadsInt8sAndPadsIntoAcc) {
  for (const bool padded : {false, true}) {
    VtaProgram p({.extensions = static_cast<std::uint32_t>(Extension::kWiden) |
                                static_cast<std::uint32_t>(Extension::kPadValue)});
    p.fill(1);
    for (int n = 0; n < 16; ++n) p.data.data()[1024 + n] = static_cast<std::byte>(-8 * n);
    Instruction same = VtaProgram::alu(AluOp::kMax, -100);
    same.push_next = std::exchange(p.instructions[VtaProgram::kStore - 1].push_next, 0);
    p.insert(VtaProgram::kStore, same);
    p.insert(VtaProgram::kStore, {.opcode = Opcode::kLoad,
                                  .memory_type = MemoryType::kAcc8,
                                  .dram_base = p.element(MemoryType::kAcc8, 1024),
                                  .y_size = 1,
                                  .x_size = 1,
                                  .x_pad_0 = padded ? 1U : 0U,
                                  .pad_value = -7});
    const Status status = p.run();
    ASSERT_TRUE(status.ok()) << status.message();
    const auto found = p.output();
    for (int n = 0; n < 16; ++n) EXPECT_EQ(found[n], padded ? -28 : std::max(-100, -8 * n));
  }
}

TEST(Simulator, PadsOfInputsHoldWhatTheInstructionSays) {
  VtaProgram p({.extensions = static_cast<std::uint32_t>(Extension::kPadValue)});
  p.fill(1);
  std::fill_n(p.int8_at(VtaProgram::kWgtOffset), 256, std::int8_t{0});
  for (int n = 0; n < 16; ++n) p.int8_at(VtaProgram::kWgtOffset)[17 * n] = 1;
  p.instructions[VtaProgram::kLoadInp].x_pad_0 = 1;
  p.instructions[VtaProgram::kLoadInp].pad_value = -32;
  const Status status = p.run();
  ASSERT_TRUE(status.ok()) << status.message();
  for (const std::int8_t found : p.output()) EXPECT_EQ(found, -128);
}

TEST(Alu, LeakyTakesTheLargerOfTheValueAndTheBranch) {
  constexpr std::int32_t kTenth = 2 | 8 | 1 << 4;  // 5/4 v and v/8
  const auto leaky = [](std::int32_t v, std::int32_t offset) {
    return alu_on_two(Implementation::kUnknown, AluOp::kLeaky, false, kTenth, {v, offset});
  };
  EXPECT_EQ(leaky(1000, 0), 1250);
  EXPECT_EQ(leaky(-1000, 0), -125);
  EXPECT_EQ(leaky(-1000, 40), -120);
  EXPECT_EQ(leaky(0x7fff'ffff, 1), 0x5fff'ffff);  // the sum with the offset wraps
  EXPECT_EQ(alu(AluOp::kLeaky, -1000, 3), -125);
  EXPECT_EQ(alu(AluOp::kLeaky, 1000, 3), 1000);
}

TEST(Alu, MinimumAndMaximumAreSigned) {
  EXPECT_EQ(alu(AluOp::kMin, -7, 5), -7);
  EXPECT_EQ(alu(AluOp::kMax, -7, -5), -5);
}

}  // namespace
}  // namespace edgepipe
