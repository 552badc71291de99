#include "stage/arm_stage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "stage/kernel_library.h"

namespace edgepipe {
namespace {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

std::size_t rounded(std::size_t bytes) {
  return (bytes + ArmPlan::kAlignment - 1) / ArmPlan::kAlignment * ArmPlan::kAlignment;
}

/// One argument list of a kernel call; it points to the tensors of its slot.
struct BoundCall {
  std::vector<TVMFFIAny> args;
};

struct Slot {
  std::vector<DLTensor> tensors;
  std::vector<BoundCall> calls;
};

Status check_views(std::span<const BufferView> views, const std::vector<ArmPlan::Border>& borders,
                   const char* role) {
  if (views.size() != borders.size()) {
    return Status(Code::kInvalidArgument, std::to_string(views.size()) + " " + role +
                                              "s were bound, expected " +
                                              std::to_string(borders.size()));
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::string tensor = std::string(role) + " '" + borders[i].name + "': ";
    if (views[i].bytes < borders[i].bytes) {
      return Status(Code::kInvalidArgument,
                    tensor + "found a buffer of " + std::to_string(views[i].bytes) +
                        " bytes, expected " + std::to_string(borders[i].bytes));
    }
    if (views[i].data == nullptr ||
        reinterpret_cast<std::uintptr_t>(views[i].data) % ArmPlan::kAlignment != 0) {
      return Status(Code::kInvalidArgument, tensor + "its buffer is not 64-byte aligned");
    }
  }
  return {};
}

}  // namespace

struct ArmStage::State {
  ArmPlan plan;
  AlignedMemory memory;  // weights, then workspace, then scratch
  std::span<std::byte> scratch;
  std::unique_ptr<KernelLibrary> library;
  std::vector<Kernel> kernels;  // one for each call
  std::vector<std::unique_ptr<Slot>> slots;

  [[nodiscard]] std::byte* workspace() const { return memory.get() + rounded(plan.weights_bytes); }
  [[nodiscard]] std::byte* data(const ArmPlan::Tensor& tensor, std::span<const BufferView> inputs,
                                std::span<const BufferView> outputs) const;
};

std::byte* ArmStage::State::data(const ArmPlan::Tensor& tensor, std::span<const BufferView> inputs,
                                 std::span<const BufferView> outputs) const {
  switch (tensor.storage) {
    case ArmPlan::Storage::kInput:
      return inputs[tensor.index].data;
    case ArmPlan::Storage::kOutput:
      return outputs[tensor.index].data;
    case ArmPlan::Storage::kConstant:
      return memory.get() + tensor.offset;
    case ArmPlan::Storage::kTemporary:
      break;
  }
  return workspace() + tensor.offset;
}

ArmStage::ArmStage(std::string name, std::unique_ptr<State> state)
    : name_(std::move(name)), state_(std::move(state)) {}

ArmStage::~ArmStage() = default;

Result<std::unique_ptr<ArmStage>> ArmStage::create(Options options) {
  const ArmPlan& plan = options.plan;
  const Result<ArmPlan::Variant> variant = plan.runnable_variant();
  if (!variant.ok()) return variant.status().with_context(options.name);
  if (options.weights.size() != plan.weights_bytes) {
    return Status(Code::kCorrupt, options.name + ": weights.bin has " +
                                      std::to_string(options.weights.size()) + " bytes, expected " +
                                      std::to_string(plan.weights_bytes));
  }
  auto state = std::make_unique<State>();
  const std::size_t fixed = rounded(plan.weights_bytes) + rounded(plan.workspace_bytes);
  const std::size_t bytes = fixed + rounded(plan.scratch_bytes);
  state->memory.reset(static_cast<std::byte*>(
      std::aligned_alloc(ArmPlan::kAlignment, std::max(bytes, ArmPlan::kAlignment))));
  if (state->memory == nullptr) {
    return Status(Code::kOutOfMemory, options.name + ": no " + std::to_string(bytes) +
                                          " bytes for weights and temporaries");
  }
  // Touched now, so that no frame causes page faults.
  std::memset(state->memory.get(), 0, bytes);
  if (!options.weights.empty()) {
    std::memcpy(state->memory.get(), options.weights.data(), options.weights.size());
  }
  state->scratch = {state->memory.get() + fixed, rounded(plan.scratch_bytes)};
  Result<std::unique_ptr<KernelLibrary>> library =
      KernelLibrary::load(options.kernels, variant->kernels);
  if (!library.ok()) return library.status().with_context(options.name);
  state->library = *std::move(library);
  for (const ArmPlan::Call& call : plan.calls) {
    Result<Kernel> kernel = state->library->find(call.kernel);
    if (!kernel.ok()) return kernel.status().with_context(options.name);
    state->kernels.push_back(*kernel);
  }
  state->plan = std::move(options.plan);
  return std::unique_ptr<ArmStage>(new ArmStage(std::move(options.name), std::move(state)));
}

Result<std::unique_ptr<ArmStage>> ArmStage::open(const std::string& folder, std::string name) {
  const std::string plan_path = folder + "/plan.json";
  const Result<MappedFile> text = MappedFile::open(plan_path);
  if (!text.ok()) return text.status();
  Result<ArmPlan> plan = ArmPlan::parse(text->bytes(), plan_path);
  if (!plan.ok()) return plan.status();
  const Result<MappedFile> weights = MappedFile::open(folder + "/weights.bin");
  if (!weights.ok()) return weights.status();
  const Result<ArmPlan::Variant> variant = plan->runnable_variant();
  if (!variant.ok()) return variant.status().with_context(folder);
  const Result<MappedFile> kernels = MappedFile::open(folder + "/" + variant->kernels);
  if (!kernels.ok()) return kernels.status();
  if (name.empty()) name = std::filesystem::path(folder).filename().string();
  return create({.name = std::move(name),
                 .plan = *std::move(plan),
                 .weights = weights->bytes(),
                 .kernels = kernels->bytes()});
}

std::span<const ArmPlan::Border> ArmStage::inputs() const { return state_->plan.inputs; }
std::span<const ArmPlan::Border> ArmStage::outputs() const { return state_->plan.outputs; }

Status ArmStage::bind(std::size_t slot, std::span<const BufferView> inputs,
                      std::span<const BufferView> outputs) {
  const ArmPlan& plan = state_->plan;
  if (Status s = check_views(inputs, plan.inputs, "input"); !s.ok()) return s.with_context(name_);
  if (Status s = check_views(outputs, plan.outputs, "output"); !s.ok()) {
    return s.with_context(name_);
  }
  auto bound = std::make_unique<Slot>();
  for (const ArmPlan::Tensor& tensor : plan.tensors) {
    DLTensor view{};
    view.data = state_->data(tensor, inputs, outputs);
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<std::int32_t>(tensor.shape.size());
    view.dtype = {tensor.type.code, tensor.type.bits, 1};
    // DLPack has no const; kernels only read shapes and strides.
    view.shape = const_cast<std::int64_t*>(tensor.shape.data());
    view.strides = const_cast<std::int64_t*>(tensor.strides.data());
    bound->tensors.push_back(view);
  }
  for (const ArmPlan::Call& call : plan.calls) {
    BoundCall ready;
    for (const std::size_t arg : call.args) {
      TVMFFIAny value{};
      value.type_index = kTVMFFIDLTensorPtr;
      value.v_ptr = &bound->tensors[arg];
      ready.args.push_back(value);
    }
    bound->calls.push_back(std::move(ready));
  }
  if (slot >= state_->slots.size()) state_->slots.resize(slot + 1);
  state_->slots[slot] = std::move(bound);
  return {};
}

Status ArmStage::run(std::size_t slot) {
  if (slot >= state_->slots.size() || state_->slots[slot] == nullptr) {
    return Status(Code::kInvalidArgument,
                  name_ + ": slot " + std::to_string(slot) + " is not bound");
  }
  const ScratchScope scratch(state_->scratch);
  const Slot& bound = *state_->slots[slot];
  for (std::size_t i = 0; i < bound.calls.size(); ++i) {
    const std::vector<TVMFFIAny>& args = bound.calls[i].args;
    TVMFFIAny result{};
    if (state_->kernels[i](nullptr, args.data(), static_cast<std::int32_t>(args.size()), &result) !=
        0) {
      const ArmPlan::Call& call = state_->plan.calls[i];
      return Status(Code::kInternal, name_ + ": " + call.operator_name + ": kernel " + call.kernel +
                                         ": " + KernelLibrary::last_error());
    }
  }
  return {};
}

}  // namespace edgepipe
