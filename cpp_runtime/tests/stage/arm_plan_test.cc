// ArmPlan accepts only plans in which every index and byte range is inside its storage.
#include "stage/arm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/host_architecture.h"

namespace edgepipe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json valid_plan() {
  return json::parse(R"({
    "format": 2,
    "inputs": [{"name": "x", "dtype": "uint8", "shape": [1, 4, 4, 3]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 10]}],
    "weights_bytes": 100, "workspace_bytes": 256, "scratch_bytes": 0,
    "architectures": {
      "x86_64": [{"kernels": "kernels-x86_64-avx2.so", "cpu_features": ["avx2"]}],
      "aarch64": [{"kernels": "kernels-aarch64.so", "cpu_features": ["asimd"]}],
      "armhf": [{"kernels": "kernels-armhf.so", "cpu_features": ["neon"]}]},
    "tensors": [
      {"storage": "input", "index": 0, "offset": 0, "dtype": "uint8", "shape": [4, 12]},
      {"storage": "constant", "index": 0, "offset": 64, "dtype": "int32", "shape": [9]},
      {"storage": "temporary", "index": 0, "offset": 128, "dtype": "int8", "shape": [2, 64]},
      {"storage": "output", "index": 0, "offset": 0, "dtype": "float32", "shape": [10]}],
    "calls": [{"operator": "conv", "kernel": "conv_0", "args": [0, 1, 2]},
              {"operator": "head", "kernel": "head_0", "args": [2, 3]}]})");
}

Result<ArmPlan> parse(const std::string& text) {
  return ArmPlan::parse(std::as_bytes(std::span(text.data(), text.size())), "plan.json");
}

TEST(ArmPlan, ReadsAPlan) {
  const Result<ArmPlan> plan = parse(valid_plan().dump());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->inputs[0].bytes, 48U);
  EXPECT_EQ(plan->outputs[0].bytes, 40U);
  EXPECT_THAT(plan->tensors[2].strides, ElementsAre(64, 1));
  EXPECT_THAT(plan->calls[1].args, ElementsAre(2, 3));
  ASSERT_EQ(plan->variants.size(), 1U);
  EXPECT_THAT(plan->variants[0].kernels, StartsWith("kernels-" + std::string(host_architecture())));
  EXPECT_EQ(plan->variants[0].cpu_features.size(), 1U);
}

TEST(ArmPlan, ReadsTruthValuesAsTvmStoresThem) {
  json plan = valid_plan();
  plan["tensors"][2]["dtype"] = "bool";
  const Result<ArmPlan> parsed = parse(plan.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->tensors[2].type.code, 6);
  EXPECT_EQ(parsed->tensors[2].type.bits, 8);
}

/// A plan with two variants for this machine, the second with `features`.
ArmPlan plan_of_two(const std::vector<std::string>& features) {
  json plan = valid_plan();
  plan["architectures"][std::string(host_architecture())] = {
      {{"kernels", "fast.so"}, {"cpu_features", {"warp_drive"}}},
      {{"kernels", "plain.so"}, {"cpu_features", features}}};
  Result<ArmPlan> parsed = parse(plan.dump());
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return *std::move(parsed);
}

TEST(ArmPlan, TakesTheFirstVariantThatThisProcessorRuns) {
  ArmPlan plan = plan_of_two({});
  EXPECT_EQ(plan.runnable_variant()->kernels, "plain.so");
  plan.variants[0].cpu_features.clear();
  EXPECT_EQ(plan.runnable_variant()->kernels, "fast.so");
}

TEST(ArmPlan, NamesTheMissingFeatureOfTheLeastDemandingVariant) {
  const Status status = plan_of_two({"holodeck", "replicator"}).runnable_variant().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(), "this processor has no holodeck, which plain.so needs");
}

struct Damage {
  const char* name;
  std::function<void(json&)> apply;
  Code code;
  const char* message;
};

class DamagedPlan : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedPlan, IsRefusedWithItsPlace) {
  json plan = valid_plan();
  GetParam().apply(plan);
  const Status status = parse(plan.dump()).status();
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    ArmPlan, DamagedPlan,
    ::testing::Values(
        Damage{"format", [](json& p) { p["format"] = 1; }, Code::kUnsupported,
               "plan.json: format: found 1, expected 2"},
        Damage{"no_calls", [](json& p) { p.erase("calls"); }, Code::kCorrupt, "calls: is missing"},
        Damage{"no_kernels", [](json& p) { p["architectures"] = json::object(); },
               Code::kUnsupported, "no kernels for "},
        Damage{"no_variants",
               [](json& p) {
                 for (json& variants : p["architectures"]) variants = json::array();
               },
               Code::kUnsupported, "no kernels for "},
        Damage{"variant",
               [](json& p) {
                 for (json& variants : p["architectures"]) variants[0].erase("cpu_features");
               },
               Code::kCorrupt, "[0].cpu_features: is missing"},
        Damage{"storage", [](json& p) { p["tensors"][0]["storage"] = "disk"; }, Code::kCorrupt,
               "tensors[0].storage: found \"disk\""},
        Damage{"input_index", [](json& p) { p["tensors"][0]["index"] = 1; }, Code::kCorrupt,
               "tensors[0].index: found 1, expected below 1"},
        Damage{"view_bytes",
               [](json& p) {
                 p["tensors"][0]["shape"] = {4, 13};
               },
               Code::kCorrupt, "tensors[0].shape: found 52 bytes, expected the 48 of 'x'"},
        Damage{"input_offset", [](json& p) { p["tensors"][0]["offset"] = 64; }, Code::kCorrupt,
               "tensors[0].offset: found 64, expected 0 in an input or output"},
        Damage{"output_offset", [](json& p) { p["tensors"][3]["offset"] = 1; }, Code::kCorrupt,
               "tensors[3].offset: found 1, expected 0 in an input or output"},
        Damage{"constant_end", [](json& p) { p["tensors"][1]["shape"] = {10}; }, Code::kCorrupt,
               "tensors[1].offset: found 64 + 40 bytes, expected them within 100"},
        Damage{"temporary_end", [](json& p) { p["workspace_bytes"] = 255; }, Code::kCorrupt,
               "tensors[2].offset: found 128 + 128 bytes, expected them within 255"},
        Damage{"alignment", [](json& p) { p["tensors"][2]["offset"] = 4; }, Code::kCorrupt,
               "tensors[2].offset: found 4, expected a multiple of 64"},
        Damage{"huge_workspace", [](json& p) { p["workspace_bytes"] = 1ULL << 60; }, Code::kCorrupt,
               "workspace_bytes: found 1152921504606846976"},
        Damage{"negative_size", [](json& p) { p["tensors"][2]["shape"] = {-1}; }, Code::kCorrupt,
               "tensors[2].shape: found dimension -1"},
        Damage{"overflowing_size",
               [](json& p) {
                 p["tensors"][2]["shape"] = {1LL << 31, 1LL << 31, 1LL << 31};
               },
               Code::kCorrupt, "tensors[2].shape: found dimension 2147483648"},
        Damage{"dtype", [](json& p) { p["inputs"][0]["dtype"] = "int4"; }, Code::kCorrupt,
               "inputs[0].dtype: found \"int4\""},
        Damage{"arg",
               [](json& p) {
                 p["calls"][1]["args"] = {2, 4};
               },
               Code::kCorrupt, "calls[1].args: found 4, expected below 4"},
        Damage{"negative_arg", [](json& p) { p["calls"][1]["args"] = {-1}; }, Code::kCorrupt,
               "calls[1].args: found -1, expected below 4"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ArmPlan, NoByteOfAPlanCanMakeItCrash) {
  const std::string good = valid_plan().dump();
  std::mt19937 random(5);
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    if (round % 8 == 0) text.resize(random() % text.size());
    const Result<ArmPlan> plan = parse(text);
    if (!plan.ok()) continue;
    for (const ArmPlan::Call& call : plan->calls) {
      for (const std::size_t arg : call.args) ASSERT_LT(arg, plan->tensors.size());
    }
  }
}

}  // namespace
}  // namespace edgepipe
