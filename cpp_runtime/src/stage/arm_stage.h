// ArmStage: a network segment that runs as TVM kernels on the CPU, following a static plan.
//
//   Result<ArmPlan> plan = ArmPlan::parse(plan_text, "stages/0_arm/plan.json");
//   Result<std::unique_ptr<ArmStage>> stage = ArmStage::create(
//       {.name = "0_arm", .plan = *plan, .weights = weights, .kernels = kernels});
//   (*stage)->bind(0, inputs, outputs);
//   (*stage)->run(0);
//
// Kernels write directly to the slot's output buffers. create() allocates temporaries and scratch
// memory of the kernels in one block; run() allocates nothing.
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

  /// Loads weights and kernels. kUnsupported if this processor lacks features that the kernels
  /// need, kCorrupt if the files do not belong together, kOutOfMemory.
  static Result<std::unique_ptr<ArmStage>> create(Options options);

  /// The same from a stage's folder; kNotFound names a missing file. Without a name, the stage has
  /// the folder's.
  static Result<std::unique_ptr<ArmStage>> open(const std::string& folder, std::string name = {});

  ~ArmStage() override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] WrittenBy written_by() const override { return WrittenBy::kCpu; }
  [[nodiscard]] std::span<const ArmPlan::Border> inputs() const;
  [[nodiscard]] std::span<const ArmPlan::Border> outputs() const;

  /// Also checks that views have the plan's sizes and are 64-byte aligned; otherwise
  /// kInvalidArgument.
  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override;

  /// kInvalidArgument for a slot that is not bound, kInternal with the kernel's message if it
  /// fails.
  Status run(std::size_t slot) override;

 private:
  struct State;  // keeps TVM's headers out of this header
  ArmStage(std::string name, std::unique_ptr<State> state);

  const std::string name_;
  const std::unique_ptr<State> state_;
};

}  // namespace edgepipe
