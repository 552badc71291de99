// ArmStage: a network segment that runs as TVM kernels on the CPU, by a static plan.
//
//   Result<ArmPlan> plan = ArmPlan::parse(plan_text, "stages/0_arm/plan.json");
//   Result<std::unique_ptr<ArmStage>> stage = ArmStage::create(
//       {.name = "0_arm", .plan = *plan, .weights = weights, .kernels = kernels});
//   (*stage)->bind(0, inputs, outputs);
//   (*stage)->run(0);
//
// Kernels write straight into the slot's output buffers. Temporaries and the kernels' own scratch
// memory are one allocation made by create(); run() allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "edgepipe/stage.h"
#include "edgepipe/status.h"
#include "stage/arm_plan.h"

namespace edgepipe {

class ArmStage final : public Stage {
 public:
  struct Options {
    std::string name;
    ArmPlan plan;
    std::span<const std::byte> weights;  // weights.bin; copied
    std::span<const std::byte> kernels;  // of `plan.runnable_variant()`; copied
  };

  /// Loads weights and kernels. kUnsupported when this processor lacks what the kernels need,
  /// kCorrupt when the files do not belong together, kOutOfMemory.
  static Result<std::unique_ptr<ArmStage>> create(Options options);

  /// The same from a stage's folder; kNotFound names a missing file.
  static Result<std::unique_ptr<ArmStage>> open(const std::string& folder);

  ~ArmStage() override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::span<const ArmPlan::Border> inputs() const;
  [[nodiscard]] std::span<const ArmPlan::Border> outputs() const;

  /// Also checks that views are of the plan's sizes and 64-byte aligned: kInvalidArgument if not.
  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override;

  /// kInvalidArgument for a slot that is not bound, kInternal with the kernel's text if it fails.
  Status run(std::size_t slot) override;

 private:
  struct State;  // keeps TVM's headers out of this one
  ArmStage(std::string name, std::unique_ptr<State> state);

  const std::string name_;
  const std::unique_ptr<State> state_;
};

}  // namespace edgepipe
