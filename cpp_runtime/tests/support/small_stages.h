// Stages under test that multiply small bytes by a constant, for the conformance suite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "edgepipe/conformance/stage_suite.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "stage/vta_stage.h"
#include "support/vta_stage_files.h"

namespace edgepipe::testing {

using conformance::Tensors;

inline constexpr std::size_t kStageArenaBytes = std::size_t{1} << 20;

/// Any stage that computes y = factor * x for small bytes x.
class SmallStage : public conformance::StageUnderTest {
 public:
  struct Options {
    std::size_t bytes = 16;
    int factor = 3;
    int addend = 0;
    std::optional<std::uint8_t> refused = {};  // a value that fails the run
  };
  explicit SmallStage(const Options& options) : options_(options) {}

  [[nodiscard]] std::vector<std::size_t> input_bytes() const override { return {options_.bytes}; }
  [[nodiscard]] std::vector<std::size_t> output_bytes() const override { return {options_.bytes}; }
  [[nodiscard]] Tensors inputs(std::uint32_t seed) const override {
    std::mt19937 random(seed);
    Tensors tensors{std::vector<std::byte>(options_.bytes)};
    for (std::byte& byte : tensors[0]) byte = static_cast<std::byte>(random() % 100);
    return tensors;
  }
  [[nodiscard]] Tensors expected(const Tensors& inputs) const override {
    Tensors tensors = inputs;
    for (std::byte& byte : tensors[0]) {
      byte = static_cast<std::byte>(options_.factor * std::to_integer<int>(byte) + options_.addend);
    }
    return tensors;
  }
  [[nodiscard]] std::optional<Tensors> failing_inputs() const override {
    if (!options_.refused) return std::nullopt;
    Tensors tensors = inputs(0);
    tensors[0].back() = std::byte{*options_.refused};
    return tensors;
  }

 private:
  const Options options_;
};

/// A VTA stage on any device, in that device's memory.
class OnVta final : public SmallStage {
 public:
  OnVta(std::unique_ptr<DeviceMemory> memory, std::unique_ptr<Device> device)
      : SmallStage({}),
        memory_(std::move(memory)),
        device_(std::move(device)),
        stage_(*VtaStage::create(*device_, *VtaStageFiles().parse(),
                                 {.name = "body", .inputs = {"x"}, .outputs = {"y"}})) {}
  [[nodiscard]] Stage& stage() override { return *stage_; }
  [[nodiscard]] DeviceMemory& memory() override { return device_->memory(); }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<VtaStage> stage_;
};

}  // namespace edgepipe::testing
