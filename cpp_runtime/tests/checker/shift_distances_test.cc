// Vector shifts on an accelerator that does not shift left: their distances must be constants that
// are not negative.
#include "checker/shift_distances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "support/vta_program.h"

namespace edgepipe {
namespace {

using ::edgepipe::testing::VtaProgram;
using ::testing::HasSubstr;
using Lanes = ShiftDistances::Lanes;

constexpr Accelerator kChisel{.implementation = Implementation::kChisel};
constexpr std::size_t kConstants = 6144;  // in the constant range, behind the weights
constexpr const char* kNotConstant =
    "shifts by the vector in acc entry 1, which is not constant, and this accelerator does not "
    "shift left; expected distances that are loaded from a constant region";

/// A product with a shift of its accumulator, by the vector at `kConstants`.
struct ShiftedProduct : VtaProgram {
  enum : std::size_t { kLoadDistances = kReset, kShift = kGemm + 1 };

  explicit ShiftedProduct(const Accelerator& a = kChisel) : VtaProgram(a) {
    const std::uint32_t uop = *InstructionCodec(a).encode_uop({.dst = 0, .src = 1});
    std::memcpy(data.data() + kUopOffset + sizeof(uop), &uop, sizeof(uop));
    instructions[kLoadUop].x_size = 2;
    insert(kLoadDistances, transfer(Opcode::kLoad, MemoryType::kAcc, kConstants));
    instructions[kLoadDistances].sram_base = 1;
    insert(kShift, alu(AluOp::kShr, 0));
    instructions[kShift].use_imm = 0;
    instructions[kShift].uop_begin = 1;
    instructions[kShift].uop_end = 2;
    const std::uint64_t start = data.device_address();
    ranges = {
        {.address = start, .bytes = kInpOffset, .access = Access::kConstant},
        {.address = start + kInpOffset, .bytes = kOutOffset - kInpOffset, .access = Access::kRead},
        {.address = start + kOutOffset, .bytes = kDataBytes - kOutOffset}};
    set_lane(0, 15);
  }

  void set_lane(std::size_t lane, std::int32_t value, std::size_t offset = kConstants) const {
    std::memcpy(data.data() + offset + lane * sizeof(value), &value, sizeof(value));
  }

  Status run_in_ranges() {
    write();
    Submission own = submission();
    own.ranges = ranges;
    return run_written(own);
  }

  std::vector<MemoryRange> ranges;
};

void expect_refused(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(ShiftDistances, ConstantsFrom0To15AreAccepted) {
  ShiftedProduct p;
  p.set_lane(1, 32 + 3);  // the hardware reads five bits
  const Status status = p.run_in_ranges();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ShiftDistances, ANegativeLaneIsRefused) {
  for (const std::int32_t lane : {-1, -16, 16}) {
    ShiftedProduct p;
    p.set_lane(15, lane);
    const Status status = p.run_in_ranges();
    expect_refused(status,
                   "shifts by the vector in acc entry 1, of which a lane is negative, and this "
                   "accelerator does not shift left; expected distances from 0 to 15");
    EXPECT_THAT(status.message(), HasSubstr("instruction 5"));
    EXPECT_THAT(status.hint(), HasSubstr("build it again, or report it"));
  }
}

TEST(ShiftDistances, AreNotLimitedOnOtherAccelerators) {
  for (const auto either : {Implementation::kUnknown, Implementation::kHls}) {
    ShiftedProduct p({.implementation = either});
    p.set_lane(0, -1);
    const Status status = p.run();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(ShiftDistances, MemoryThatMayChangeIsRefused) {
  ShiftedProduct anywhere;
  expect_refused(anywhere.run(), kNotConstant);

  ShiftedProduct input;
  input.instructions[ShiftedProduct::kLoadDistances].dram_base =
      input.element(MemoryType::kAcc, VtaProgram::kInpOffset);
  expect_refused(input.run_in_ranges(), kNotConstant);

  ShiftedProduct overlapping;
  overlapping.ranges.push_back(
      {.address = overlapping.data.device_address() + kConstants, .bytes = 64});
  expect_refused(overlapping.run_in_ranges(), kNotConstant);
}

TEST(ShiftDistances, AnEntryThatIsWrittenIsNoLongerConstant) {
  ShiftedProduct p;
  Instruction add = VtaProgram::alu(AluOp::kAdd, 1);
  add.dst_factor_out = add.src_factor_out = 1;
  add.iter_out = 2;
  p.insert(ShiftedProduct::kShift, add);
  expect_refused(p.run_in_ranges(), kNotConstant);

  // A GEMM, in entries 0 and 1.
  ShiftedProduct reset;
  reset.instructions[VtaProgram::kReset + 1].iter_out = 2;
  reset.instructions[VtaProgram::kReset + 1].dst_factor_out = 1;
  expect_refused(reset.run_in_ranges(), kNotConstant);
}

TEST(ShiftDistances, AStepMayNotShiftByWhatAnEarlierOneShifted) {
  ShiftedProduct p;
  p.instructions[ShiftedProduct::kLoadDistances].sram_base = 0;
  std::swap(p.instructions[ShiftedProduct::kLoadDistances], p.instructions[VtaProgram::kReset + 1]);
  p.instructions[ShiftedProduct::kShift].uop_begin = 0;
  p.instructions[ShiftedProduct::kShift].uop_end = 1;
  expect_refused(p.run_in_ranges(), "acc entry 0, which is not constant");
}

// A copy of a checked program at other addresses is checked less thoroughly than the first one.
TEST(ShiftDistances, ACopyWithOtherDistancesIsChecked) {
  ShiftedProduct p;
  ASSERT_TRUE(p.run_in_ranges().ok());
  const std::size_t other = kConstants + p.accelerator.acc_bytes();
  p.set_lane(0, -1, other);
  p.instructions[ShiftedProduct::kLoadDistances].dram_base = p.element(MemoryType::kAcc, other);
  expect_refused(p.run_in_ranges(), "of which a lane is negative");
}

TEST(ShiftDistances, RowsAndPadsAreLoadedToTheirEntries) {
  ShiftDistances distances(kChisel);
  constexpr std::size_t kLanes = 16;
  std::array<std::int32_t, 4 * kLanes> rows{};  // two rows of one entry, two entries apart
  rows[2 * kLanes] = -1;
  Instruction load{.opcode = Opcode::kLoad, .memory_type = MemoryType::kAcc};
  load.sram_base = 10;
  load.y_size = 2;
  load.x_size = 1;
  load.x_stride = 2;
  load.x_pad_0 = load.y_pad_1 = 1;
  distances.load(load, reinterpret_cast<const std::byte*>(rows.data()));
  // Entries 10 and 11 are the first row, 12 and 13 the second one, 14 and 15 pads.
  const auto unsafe = [&](std::uint32_t begin, std::uint32_t end) {
    const std::array entries = {Interval{begin, end}};
    return distances.find_unsafe(entries);
  };
  EXPECT_FALSE(unsafe(10, 13));
  EXPECT_FALSE(unsafe(14, 16));
  ASSERT_TRUE(unsafe(10, 16));
  EXPECT_EQ(unsafe(10, 16)->entry, 13U);
  EXPECT_EQ(unsafe(10, 16)->lanes, Lanes::kLeft);
  EXPECT_EQ(unsafe(16, 17)->lanes, Lanes::kUnknown);
  EXPECT_EQ(unsafe(9, 17)->entry, 9U);
}

}  // namespace
}  // namespace edgepipe
