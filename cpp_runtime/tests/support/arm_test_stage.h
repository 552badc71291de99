// An ArmStage for tests, of the kernels in kernels/test_kernels.cc.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stage/arm_stage.h"

namespace edgepipe::testing {

inline constexpr std::size_t kArmElements = 8;

inline std::vector<std::byte> test_kernels() {
  std::ifstream file(EDGEPIPE_TEST_KERNELS, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

/// y = (x + w) + w, with a temporary between.
inline ArmPlan add_twice() {
  const auto tensor = [](ArmPlan::Storage storage, std::int64_t elements) {
    return ArmPlan::Tensor{
        .storage = storage, .type = {.code = 0, .bits = 8}, .shape = {elements}, .strides = {1}};
  };
  ArmPlan plan;
  plan.inputs = {{.name = "x", .bytes = kArmElements}};
  plan.outputs = {{.name = "y", .bytes = kArmElements}};
  plan.tensors = {tensor(ArmPlan::Storage::kInput, kArmElements),
                  tensor(ArmPlan::Storage::kConstant, 1),
                  tensor(ArmPlan::Storage::kTemporary, kArmElements),
                  tensor(ArmPlan::Storage::kOutput, kArmElements)};
  plan.calls = {{.operator_name = "first", .kernel = "add", .args = {0, 1, 2}},
                {.operator_name = "second", .kernel = "add", .args = {2, 1, 3}}};
  plan.weights_bytes = 1;
  plan.workspace_bytes = kArmElements;
  plan.scratch_bytes = 64;
  plan.variants = {{.kernels = "kernels.so", .cpu_features = {}}};
  return plan;
}

inline Result<std::unique_ptr<ArmStage>> make_arm_stage(ArmPlan plan, std::int8_t constant) {
  const std::vector<std::byte> library = test_kernels();
  const std::array weights = {static_cast<std::byte>(constant)};
  return ArmStage::create(
      {.name = "0_arm", .plan = std::move(plan), .weights = weights, .kernels = library});
}

}  // namespace edgepipe::testing
