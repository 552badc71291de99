// Every kind of stage that C++ runs, against the promises of stage.h. Those that need Python or a
// server are in tests/edgepipe/pipeline/test_stage_conformance.py.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "edgepipe/conformance/stage_suite.h"
#include "edgepipe/stage.h"
#include "emulation/model_device.h"
#include "memory/non_coherent_memory.h"
#include "pipeline/recovering_stage.h"
#include "simulator/simulator.h"
#include "support/arm_test_stage.h"
#include "support/small_stages.h"

namespace edgepipe::conformance {
namespace {

constexpr std::uint8_t kTooMuch = 200;  // what the functions refuse

using CreatedStage = Created<StageUnderTest>;
using testing::kStageArenaBytes;
using testing::OnVta;
using testing::SmallStage;
using Views = FunctionStage::Views;

/// A stage of the CPU in plain memory.
class CpuStage final : public SmallStage {
 public:
  CpuStage(std::unique_ptr<Stage> stage, const Options& options)
      : SmallStage(options), stage_(std::move(stage)) {}
  [[nodiscard]] Stage& stage() override { return *stage_; }
  [[nodiscard]] DeviceMemory& memory() override { return *memory_; }

 private:
  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = kStageArenaBytes});
  std::unique_ptr<Stage> stage_;
};

CreatedStage cpu(Result<std::unique_ptr<Stage>> stage, const SmallStage::Options& options) {
  if (!stage.ok()) return stage.status();
  return std::make_unique<CpuStage>(*std::move(stage), options);
}

Status triple(Views inputs, Views outputs) {
  for (std::size_t n = 0; n < inputs[0].bytes; ++n) {
    const auto value = std::to_integer<int>(inputs[0].data[n]);
    if (value == kTooMuch) throw std::runtime_error("found 200");
    outputs[0].data[n] = static_cast<std::byte>(3 * value);
  }
  return {};
}

CreatedStage function() {
  return cpu(std::unique_ptr<Stage>(std::make_unique<FunctionStage>("triple", triple)),
             {.refused = kTooMuch});
}

CreatedStage library() {
  Result<std::unique_ptr<FunctionStage>> stage =
      FunctionStage::open("triple", EDGEPIPE_TEST_STAGE_LIBRARY, "triple");
  if (!stage.ok()) return stage.status();
  return cpu(std::unique_ptr<Stage>(*std::move(stage)), {.refused = kTooMuch});
}

CreatedStage arm(const char* kernel, std::optional<std::uint8_t> refused) {
  ArmPlan plan = testing::add_twice();
  for (ArmPlan::Call& call : plan.calls) call.kernel = kernel;
  plan.scratch_bytes = 1024;
  Result<std::unique_ptr<ArmStage>> stage = testing::make_arm_stage(plan, /*constant=*/5);
  if (!stage.ok()) return stage.status();
  return cpu(std::unique_ptr<Stage>(*std::move(stage)),
             {.bytes = testing::kArmElements, .factor = 1, .addend = 10, .refused = refused});
}

CreatedStage on_simulator() {
  auto memory = *HostMemory::create({.arena_bytes = kStageArenaBytes});
  std::unique_ptr<Device> device = *Simulator::create({}, *memory);
  return std::make_unique<OnVta>(std::move(memory), std::move(device));
}

CreatedStage on_model() {
  auto memory = *NonCoherentMemory::create({.arena_bytes = kStageArenaBytes});
  std::unique_ptr<Device> device = *ModelDevice::create({}, *memory, memory->device_side(), {});
  return std::make_unique<OnVta>(std::move(memory), std::move(device));
}

/// The recovery of a stage whose device fails, wrapped as a stage.
class Recovering final : public Stage {
 public:
  Recovering(std::unique_ptr<Stage> stage, std::unique_ptr<Stage> fallback)
      : node_{.stage = std::move(stage),
              .reads = {0},
              .writes = {1},
              .fallback = std::move(fallback)} {}

  [[nodiscard]] std::string_view name() const override { return node_.stage->name(); }
  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override {
    Status status = node_.stage->bind(slot, inputs, outputs);
    return status.ok() ? node_.fallback->bind(slot, inputs, outputs) : status;
  }
  Status run(std::size_t slot) override { return recovering_.run(slot, frame_++); }

 private:
  StageNode node_;
  RecoveringStage recovering_{0, node_, [](const std::string&) {}};
  std::uint64_t frame_ = 0;
};

/// A stage that fails with `status` in every `every`-th run, after writing half of its outputs.
class FailingStage final : public FunctionStage {
 public:
  FailingStage(int every, Status status)
      : FunctionStage("triple", [every, status, run = 0](Views inputs, Views outputs) mutable {
          if (every == 0 || ++run % every != 0) return triple(inputs, outputs);
          std::fill_n(outputs[0].data, outputs[0].bytes / 2, std::byte{0xEE});
          return status;
        }) {}
  [[nodiscard]] bool repeatable() const override { return true; }
};

CreatedStage recovering(int every, const Status& status) {
  return cpu(std::unique_ptr<Stage>(
                 std::make_unique<Recovering>(std::make_unique<FailingStage>(every, status),
                                              std::make_unique<FunctionStage>("arm", triple))),
             {.refused = kTooMuch});
}

const Deviations kTells{
    {"AllocatesNothingInARun", "a fault is told, and only the frame that meets it allocates"}};

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Stage, StageConformance,
    ::testing::Values(
        StageImplementation{.name = "Function", .create = function},
        StageImplementation{.name = "Library", .create = library},
        StageImplementation{.name = "Arm", .create = [] { return arm("add", {}); }},
        StageImplementation{.name = "ArmOfParallelLoops",
                            .create = [] { return arm("add_shared", 128); }},
        StageImplementation{.name = "VtaOnTheSimulator", .create = on_simulator},
        StageImplementation{
            .name = "VtaOnTheModel",
            .create = on_model,
            .deviations = {{"AllocatesNothingInARun",
                            "the model of the FPGA checks a new program, on its own thread"}}},
        StageImplementation{.name = "RecoveringWithoutAFault",
                            .create = [] { return recovering(0, Status()); }},
        StageImplementation{
            .name = "RecoveringFromHangs",
            .create = [] { return recovering(2, Status(Code::kDeadline, "it hangs")); },
            .deviations = kTells},
        StageImplementation{
            .name = "RecoveringByItsFallback",
            .create = [] { return recovering(1, Status(Code::kDevice, "it is broken")); },
            .deviations = kTells}),
    name_of);

}  // namespace edgepipe::conformance
