// ArmStage runs the kernels of a plan in the slot's buffers, with the kernels of tests/kernels.
#include "stage/arm_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/host_architecture.h"
#include "stage/core_team.h"
#include "support/arm_test_stage.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

using testing::add_twice;
using testing::test_kernels;
constexpr std::size_t kElements = testing::kArmElements;

struct alignas(64) Memory {
  std::array<std::int8_t, 64> values{};

  BufferView view(std::size_t bytes = kElements) {
    return {
        .data = reinterpret_cast<std::byte*>(values.data()), .device_address = 0, .bytes = bytes};
  }
};

Status bind(Stage& stage, std::size_t slot, const BufferView& input, const BufferView& output) {
  return stage.bind(slot, std::span(&input, 1), std::span(&output, 1));
}

class ArmStageThreads : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, ArmStageThreads, ::testing::Values(1, 2, 3, 8));

TEST_P(ArmStageThreads, ShareTheLoopsOfAKernel) {
  constexpr std::size_t kMany = 1000;
  ArmPlan plan = add_twice();
  for (ArmPlan::Tensor& tensor : plan.tensors) {
    if (tensor.shape[0] != 1) tensor.shape[0] = kMany;
  }
  plan.inputs[0].bytes = plan.outputs[0].bytes = plan.workspace_bytes = kMany;
  plan.scratch_bytes = 1024;
  plan.calls[0].kernel = plan.calls[1].kernel = "add_shared";
  const auto stage = testing::make_arm_stage(plan, 3);
  ASSERT_TRUE(stage.ok()) << stage.status().message();
  const auto team = CoreTeam::start({.name = "0_arm", .threads = GetParam(), .cores = {}});
  ASSERT_TRUE(team.ok()) << team.status().message();
  struct alignas(64) Many {
    std::array<std::int8_t, kMany> values{};
  } x;
  Many y;
  const auto view = [](Many& many) {
    return BufferView{.data = reinterpret_cast<std::byte*>(many.values.data()),
                      .device_address = 0,
                      .bytes = kMany};
  };
  ASSERT_TRUE(bind(**stage, 0, view(x), view(y)).ok());
  const CoreTeam::Membership member(team->get());
  for (int frame = 0; frame < 100; ++frame) {
    x.values.fill(static_cast<std::int8_t>(frame));
    const Status status = (*stage)->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_THAT(y.values, ::testing::Each(frame + 6));
  }
  x.values[990] = -128;
  const Status status = (*stage)->run(0);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(),
            "0_arm: first: kernel add_shared: ValueError: add_shared: found -128.");
}

TEST(ArmStage, StagesOfOneProcessDoNotShareTheirLibrary) {
  const auto first = testing::make_arm_stage(add_twice(), 1);
  const auto second = testing::make_arm_stage(add_twice(), 5);
  ASSERT_TRUE(first.ok() && second.ok());
  Memory x;
  Memory y;
  for (const auto& [stage, expected] : {std::pair{&first, 2}, std::pair{&second, 10}}) {
    ASSERT_TRUE(bind(***stage, 0, x.view(), y.view()).ok());
    ASSERT_TRUE((**stage)->run(0).ok());
    EXPECT_EQ(y.values[0], expected);
  }
}

TEST(ArmStage, TellsWhichOperatorFailedAndWhy) {
  ArmPlan plan = add_twice();
  plan.calls[1].args.pop_back();
  const auto stage = testing::make_arm_stage(plan, 1);
  Memory x;
  Memory y;
  ASSERT_TRUE(bind(**stage, 0, x.view(), y.view()).ok());
  const Status status = (*stage)->run(0);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "0_arm: second: kernel add: ValueError: add: expected 3 arguments.");
}

TEST(ArmStage, AKernelThatWantsMoreScratchMemoryThanPlannedFails) {
  ArmPlan plan = add_twice();
  plan.scratch_bytes = 0;
  const auto stage = testing::make_arm_stage(plan, 1);
  Memory x;
  Memory y;
  ASSERT_TRUE(bind(**stage, 0, x.view(), y.view()).ok());
  EXPECT_THAT((*stage)->run(0).message(), HasSubstr("add: no scratch memory"));
}

TEST(ArmStage, RefusesBuffersThatDoNotFitThePlan) {
  const auto stage = testing::make_arm_stage(add_twice(), 1);
  Memory x;
  Memory y;
  EXPECT_EQ(bind(**stage, 0, x.view(7), y.view()).message(),
            "0_arm: input 'x': found a buffer of 7 bytes, expected 8");
  BufferView shifted = y.view();
  shifted.data += 1;
  EXPECT_EQ(bind(**stage, 0, x.view(), shifted).message(),
            "0_arm: output 'y': its buffer is not 64-byte aligned");
  EXPECT_EQ((*stage)->bind(0, {}, {}).message(), "0_arm: 0 inputs were bound, expected 1");
  EXPECT_EQ((*stage)->run(0).message(), "0_arm: slot 0 is not bound");
}

TEST(ArmStage, RefusesFilesThatDoNotBelongTogether) {
  ArmPlan plan = add_twice();
  plan.weights_bytes = 2;
  EXPECT_EQ(testing::make_arm_stage(plan, 1).status().message(),
            "0_arm: weights.bin has 1 bytes, expected 2");
  plan = add_twice();
  plan.calls[0].kernel = "multiply";
  EXPECT_EQ(testing::make_arm_stage(plan, 1).status().message(),
            "0_arm: kernels.so: no kernel 'multiply'");
  plan = add_twice();
  const std::array<std::byte, 1> weights{};
  const Status status =
      ArmStage::create({.name = "0_arm", .plan = plan, .weights = weights, .kernels = weights})
          .status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("0_arm: kernels.so: cannot be loaded: "));
}

TEST(ArmStage, RefusesAProcessorThatLacksAnInstruction) {
  ArmPlan plan = add_twice();
  plan.variants[0].cpu_features = {"warp_drive"};
  const Status status = testing::make_arm_stage(plan, 1).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(), "0_arm: this processor has no warp_drive, which kernels.so needs");
}

TEST(ArmStage, OpensTheKernelsOfTheFirstVariantThatThisProcessorRuns) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "edgepipe_two_variants";
  std::filesystem::create_directories(folder);
  const nlohmann::json plan = {
      {"format", 2},
      {"inputs", nlohmann::json::array()},
      {"outputs", nlohmann::json::array()},
      {"tensors", nlohmann::json::array()},
      {"calls", nlohmann::json::array()},
      {"weights_bytes", 0},
      {"workspace_bytes", 0},
      {"scratch_bytes", 0},
      {"architectures",
       {{host_architecture(),
         {{{"kernels", "fast.so"}, {"cpu_features", {"warp_drive"}}},
          {{"kernels", "plain.so"}, {"cpu_features", nlohmann::json::array()}}}}}}};
  std::ofstream(folder / "plan.json") << plan;
  std::ofstream(folder / "weights.bin").flush();
  EXPECT_THAT(ArmStage::open(folder).status().message(), HasSubstr("plain.so"));  // is not there
  std::filesystem::copy_file(EDGEPIPE_TEST_KERNELS, folder / "plain.so");
  const auto stage = ArmStage::open(folder);
  EXPECT_TRUE(stage.ok()) << stage.status().message();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace edgepipe
