#include "tvm_stage.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/module.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>

#include "array.h"
#include "base/mapped_file.h"
#include "stage_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

constexpr const char* kLibraryFile = "module.so";
constexpr const char* kParametersFile = "parameters.bin";
constexpr int kPooledAllocator = 2;  // VirtualMachine.POOLED_ALLOCATOR of tvm/runtime/vm.py
constexpr DLDevice kCpu{kDLCPU, 0};

/// Memory owned by the tensor and aligned as TVM's kernels expect.
struct Owned {
  void AllocData(DLTensor* tensor) {  // NOLINT
    tensor->data = ::operator new(ffi::GetDataSize(*tensor), kAlignment);
  }
  void FreeData(DLTensor* tensor) { ::operator delete(tensor->data, kAlignment); }  // NOLINT
  static constexpr std::align_val_t kAlignment{64};
};

ffi::Shape shape_of(const std::vector<std::int64_t>& extents) {
  return {extents.begin(), extents.end()};
}

DLDataType type_of(const std::string& name) { return ffi::StringToDLDataType(name); }

std::size_t bytes_of(const ffi::Tensor& tensor) {
  return ffi::GetDataSize(static_cast<std::size_t>(tensor.numel()), tensor.dtype());
}

/// Copies a result of the machine, which is in C order, out of its memory.
void copy_out(const ffi::Tensor& tensor, const EpStageBuffer& output) {
  const std::size_t bytes = bytes_of(tensor);
  if (bytes != output.bytes || !tensor.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << "an output has " << bytes << " bytes, expected " << output.bytes;
  }
  const auto* data = static_cast<const std::uint8_t*>(tensor.data_ptr()) + tensor.byte_offset();
  std::memcpy(output.data, data, bytes);
}

}  // namespace

Result<std::unique_ptr<TvmStage>> TvmStage::open(const std::filesystem::path& root,
                                                 const nlohmann::json& entry,
                                                 std::vector<TensorSpec> inputs) {
  std::unique_ptr<TvmStage> stage(new TvmStage());
  stage->inputs_ = std::move(inputs);
  try {
    stage->name_ = entry.at("name").get<std::string>();
    Status status = stage->load(root, entry);
    if (!status.ok()) return status.with_context("stage '" + stage->name_ + "'");
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kCorrupt, "stage '" + stage->name_ + "': " + error.what());
  } catch (const std::exception& error) {  // TVM's
    return Status(Code::kUnsupported, "stage '" + stage->name_ + "': " + error.what());
  }
  return stage;
}

Status TvmStage::load(const std::filesystem::path& root, const nlohmann::json& entry) {
  const auto device = entry.at("device_kind").get<std::string>();
  if (device != "cpu") return Status(Code::kUnsupported, "device '" + device + "', expected cpu");
  order_ = entry.at("order").get<std::vector<std::string>>();
  const std::filesystem::path folder = root / entry.at("folder").get<std::string>();
  const ffi::Module library = ffi::Module::LoadFromFile((folder / kLibraryFile).string());
  const auto machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization")
      .value()(static_cast<int>(kCpu.device_type), kCpu.device_id, kPooledAllocator);
  main_ = machine->GetFunction("main").value();
  machine_ = machine;
  return load_parameters(folder / kParametersFile, entry.at("parameters"));
}

Status TvmStage::load_parameters(const std::filesystem::path& file, const nlohmann::json& list) {
  Parameters parameters;
  if (!list.empty()) {
    Result<MappedFile> content = MappedFile::open(file);
    if (!content.ok()) return content.status();
    std::span<const std::byte> rest = content->bytes();
    for (const nlohmann::json& entry : list) {
      Tensor tensor =
          Tensor::FromNDAlloc(Owned(), shape_of(entry.at("shape").get<std::vector<std::int64_t>>()),
                              type_of(entry.at("dtype").get<std::string>()), kCpu);
      const std::size_t bytes = bytes_of(tensor);
      if (rest.size() < bytes) return Status(Code::kCorrupt, file.string() + ": is too short");
      std::memcpy(tensor.data_ptr(), rest.data(), bytes);
      rest = rest.subspan(bytes);
      parameters.emplace(entry.at("name").get<std::string>(), std::move(tensor));
    }
  }
  MutexLock lock(mutex_);
  versions_.emplace_back(0, std::move(parameters));
  return {};
}

TvmStage::Parameters TvmStage::current() {
  MutexLock lock(mutex_);
  while (versions_.size() > 1 && versions_[1].first <= frame_) versions_.pop_front();
  ++frame_;
  return versions_.front().second;
}

Status TvmStage::replace(const std::string& parameter, std::span<const std::byte> content,
                         std::uint64_t first_frame) {
  MutexLock lock(mutex_);
  Parameters next = versions_.back().second;
  const auto found = next.find(parameter);
  if (found == next.end()) {
    std::string known;
    for (const auto& [name, tensor] : next) known += (known.empty() ? "" : ", ") + name;
    return Status(Code::kNotFound, "stage '" + name_ + "': found parameter '" + parameter +
                                       "', expected one of " + known);
  }
  const Tensor& old = found->second;
  const std::size_t bytes = bytes_of(old);
  if (content.size() != bytes) {
    return Status(Code::kInvalidArgument, "stage '" + name_ + "': parameter '" + parameter +
                                              "' has " + std::to_string(content.size()) +
                                              " bytes, expected " + std::to_string(bytes));
  }
  Tensor tensor = Tensor::FromNDAlloc(Owned(), old.shape(), old.dtype(), kCpu);
  std::memcpy(tensor.data_ptr(), content.data(), bytes);
  found->second = std::move(tensor);
  versions_.emplace_back(first_frame, std::move(next));
  return {};
}

void TvmStage::restart() {
  MutexLock lock(mutex_);
  Parameters newest = std::move(versions_.back().second);
  versions_.clear();
  versions_.emplace_back(0, std::move(newest));
  frame_ = 0;
}

void TvmStage::run(const EpStageBuffer* inputs, std::uint32_t input_count,
                   const EpStageBuffer* outputs, std::uint32_t output_count) {
  const Parameters parameters = current();
  std::vector<ffi::Any> arguments;
  arguments.reserve(order_.size());
  std::uint32_t next = 0;
  for (const std::string& name : order_) {
    if (const auto parameter = parameters.find(name); parameter != parameters.end()) {
      arguments.emplace_back(parameter->second);
      continue;
    }
    if (next >= input_count || next >= inputs_.size()) {
      TVM_FFI_THROW(ValueError) << "'" << name << "' is neither an input nor a parameter";
    }
    const TensorSpec& spec = inputs_[next];
    arguments.emplace_back(Tensor::FromNDAlloc(Borrowed{inputs[next].data}, shape_of(spec.shape),
                                               type_of(spec.dtype), kCpu));
    ++next;
  }
  std::vector<ffi::AnyView> views(arguments.begin(), arguments.end());
  ffi::Any result;
  main_.CallPacked(views.data(), static_cast<std::int32_t>(views.size()), &result);
  if (const auto single = result.as<ffi::Tensor>()) {
    if (output_count != 1) TVM_FFI_THROW(ValueError) << "it returned one output, expected several";
    copy_out(*single, outputs[0]);
    return;
  }
  const auto several = result.cast<ffi::Array<ffi::Tensor>>();
  if (several.size() != output_count) TVM_FFI_THROW(ValueError) << "it returned too many outputs";
  for (std::uint32_t index = 0; index < output_count; ++index) {
    copy_out(several[index], outputs[index]);
  }
}

int TvmStage::call(void* context, const EpStageBuffer* inputs, std::uint32_t input_count,
                   const EpStageBuffer* outputs, std::uint32_t output_count, char* error,
                   std::uint64_t error_bytes) {
  return guarded(
      [&] { static_cast<TvmStage*>(context)->run(inputs, input_count, outputs, output_count); },
      error, error_bytes);
}

}  // namespace edgepipe::binding
