// Footprints compared with stepping through all steps one by one.
#include "checker/step_footprints.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

#include "isa/instruction_steps.h"

namespace edgepipe {
namespace {

std::set<std::uint32_t> entries(const std::vector<Interval>& intervals) {
  std::set<std::uint32_t> found;
  std::uint32_t end = 0;
  for (const Interval& interval : intervals) {
    EXPECT_LT(interval.begin, interval.end);
    EXPECT_TRUE(found.empty() || interval.begin > end) << "not ascending, disjoint and merged";
    end = interval.end;
    for (std::uint32_t n = interval.begin; n < interval.end; ++n) found.insert(n);
  }
  return found;
}

struct Expected {
  std::set<std::uint32_t> dst, src, wgt;
  bool hazardous = false;
};

Expected one_by_one(const Instruction& i, const std::vector<Uop>& uops, std::uint64_t distance) {
  const bool acc = i.opcode == Opcode::kAlu && i.use_imm == 0;
  const bool inp = i.opcode == Opcode::kGemm && i.reset == 0;
  Expected found;
  std::map<std::uint32_t, std::uint64_t> written;
  std::uint64_t step = 0;
  const auto early = [&](std::uint32_t n) {
    return written.contains(n) && step - written[n] < distance;
  };
  every_step(i, uops.data(), [&](std::uint32_t dst, std::uint32_t src, std::uint32_t wgt) {
    found.dst.insert(dst);
    if (inp || acc) found.src.insert(src);
    if (inp) found.wgt.insert(wgt);
    found.hazardous = found.hazardous || early(dst) || (acc && early(src));
    written[dst] = step++;
    return true;
  });
  return found;
}

TEST(StepFootprintsTest, TellsWhatTheStepsTouchAndWhetherTheyComeTooClose) {
  const Accelerator accelerator;
  StepFootprints footprints(accelerator);
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  int hazardous = 0;
  for (int round = 0; round < 4000; ++round) {
    Instruction i;
    i.opcode = below(2) == 0 ? Opcode::kGemm : Opcode::kAlu;
    i.reset = i.opcode == Opcode::kGemm ? below(2) : 0;
    i.use_imm = below(2);
    i.iter_out = below(round % 2 == 0 ? 5 : 40);
    i.iter_in = below(round % 2 == 0 ? 5 : 12);
    i.dst_factor_out = below(9);
    i.dst_factor_in = below(9);
    i.src_factor_out = below(9);
    i.src_factor_in = below(3);
    i.wgt_factor_out = below(2);
    i.wgt_factor_in = below(2);
    std::vector<Uop> uops(1 + below(6));
    for (Uop& uop : uops) uop = {.dst = below(60), .src = below(20), .wgt = below(9)};
    i.uop_end = static_cast<std::uint32_t>(uops.size());

    const Expected expected = one_by_one(i, uops, accelerator.acc_hazard_steps);
    const StepFootprint& found = footprints.of(i, uops, static_cast<std::size_t>(round));
    EXPECT_TRUE(found.in_range);
    EXPECT_EQ(entries(found.dst), expected.dst);
    EXPECT_EQ(entries(found.src), expected.src);
    EXPECT_EQ(entries(found.wgt), expected.wgt);
    EXPECT_EQ(found.hazardous, expected.hazardous);
    hazardous += expected.hazardous ? 1 : 0;
  }
  EXPECT_GT(hazardous, 100);
  EXPECT_LT(hazardous, 3600);
}

TEST(StepFootprintsTest, CostsNoMoreForLoopsOfBillionsOfSteps) {
  const Accelerator accelerator;
  StepFootprints footprints(accelerator);
  constexpr std::uint32_t kMost = (1U << 14) - 1;
  Instruction i{.opcode = Opcode::kGemm, .uop_end = 8, .iter_out = kMost, .iter_in = kMost};
  std::vector<Uop> uops(8);
  for (std::uint32_t n = 0; n < 8; ++n) uops[n] = {.dst = 3 * n, .src = n};
  const auto began = std::chrono::steady_clock::now();
  const StepFootprint& same = footprints.of(i, uops, 0);
  EXPECT_EQ(entries(same.dst), (std::set<std::uint32_t>{0, 3, 6, 9, 12, 15, 18, 21}));
  EXPECT_FALSE(same.hazardous);
  i.dst_factor_out = 1;
  EXPECT_FALSE(footprints.of(i, uops, 0).in_range);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(StepFootprintsTest, AnEntryBeyondABufferIsReported) {
  const Accelerator accelerator;
  StepFootprints footprints(accelerator);
  Instruction i;
  i.opcode = Opcode::kGemm;
  i.iter_out = i.iter_in = i.uop_end = 1;
  EXPECT_FALSE(footprints.of(i, std::vector<Uop>{{.dst = accelerator.acc_depth()}}, 1).in_range);
  EXPECT_FALSE(footprints.of(i, std::vector<Uop>{{.wgt = accelerator.wgt_depth()}}, 2).in_range);
  EXPECT_TRUE(footprints.of(i, std::vector<Uop>{{.dst = 1, .src = 2, .wgt = 3}}, 3).in_range);
}

}  // namespace
}  // namespace edgepipe
