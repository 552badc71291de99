// ArmPlan: the static plan of an ARM stage (plan.json), read and checked.
//
//   Result<ArmPlan> plan = ArmPlan::parse(text, "stages/0_arm/plan.json");
//   Result<ArmPlan::Variant> variant = plan->runnable_variant();
//   variant->kernels;  // "kernels-aarch64.so" on the board
//
// A parsed plan is consistent: every index and every byte range is inside its storage. A plain
// value without TVM types. edgepipe/codegen/arm/plan.py describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

struct ArmPlan {
  static constexpr std::size_t kAlignment = 64;

  struct ElementType {
    std::uint8_t code = 0;  // DLPack's type code
    std::uint8_t bits = 0;
  };

  /// A tensor at the stage's boundary.
  struct Border {
    std::string name;
    std::size_t bytes = 0;
  };

  enum class Storage { kInput, kOutput, kConstant, kTemporary };

  /// A tensor as kernels see it: `index` of an input or output, whose `offset` is 0, or `offset`
  /// into weights or workspace.
  struct Tensor {
    Storage storage = Storage::kTemporary;
    std::size_t index = 0;
    std::size_t offset = 0;
    ElementType type;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // compact, in elements
  };

  struct Call {
    std::string operator_name;
    std::string kernel;
    std::vector<std::size_t> args;  // indices into `tensors`
  };

  /// A library of kernels for this architecture.
  struct Variant {
    std::string kernels;                    // file name
    std::vector<std::string> cpu_features;  // that they require
  };

  std::vector<Border> inputs;
  std::vector<Border> outputs;
  std::vector<Tensor> tensors;
  std::vector<Call> calls;
  std::size_t weights_bytes = 0;
  std::size_t workspace_bytes = 0;
  std::size_t scratch_bytes = 0;
  std::vector<Variant> variants;  // of this architecture, best first

  /// Reads a plan. kCorrupt names `where` and the invalid field; kUnsupported for another format
  /// version, or if there are no kernels for this architecture.
  static Result<ArmPlan> parse(std::span<const std::byte> text, const std::string& where);

  /// The best variant that this processor can run. kUnsupported names the feature that is missing
  /// for the last variant, which requires the least.
  [[nodiscard]] Result<Variant> runnable_variant() const;
};

}  // namespace edgepipe
