// A plan of arbitrary text is either refused, or all its references are valid.
#include <cstdlib>

#include "stage/arm_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using edgepipe::ArmPlan;
  const auto plan = ArmPlan::parse(std::as_bytes(std::span(data, bytes)), "plan.json");
  if (!plan.ok()) return 0;
  for (const ArmPlan::Call& call : plan->calls) {
    for (const std::size_t index : call.args) {
      if (index >= plan->tensors.size()) std::abort();
    }
  }
  for (const ArmPlan::Tensor& tensor : plan->tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::uint64_t>(extent);
    const std::uint64_t tensor_bytes = elements * tensor.type.bits / 8;
    const std::size_t room =
        tensor.storage == ArmPlan::Storage::kInput      ? plan->inputs.at(tensor.index).bytes
        : tensor.storage == ArmPlan::Storage::kOutput   ? plan->outputs.at(tensor.index).bytes
        : tensor.storage == ArmPlan::Storage::kConstant ? plan->weights_bytes
                                                        : plan->workspace_bytes;
    if (tensor.offset > room || tensor_bytes > room - tensor.offset) std::abort();
  }
  return 0;
}
