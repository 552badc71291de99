#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "base/loaded_library.h"
#include "base/out_of_memory.h"
#include "edgepipe/stage.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostTensors = 64;  // per C function, so that a call needs no allocation
constexpr std::size_t kMostErrorBytes = 512;

/// A C function as a body; its arrays are on the stack, so a call allocates only on failure.
struct CallFunction {
  EpStageFunction function;
  void* context;

  Status operator()(FunctionStage::Views inputs, FunctionStage::Views outputs) const {
    std::array<EpStageBuffer, kMostTensors> buffers{};
    if (inputs.size() + outputs.size() > buffers.size()) {
      return Status(Code::kUnsupported, "a C function takes at most " +
                                            std::to_string(kMostTensors) + " tensors, found " +
                                            std::to_string(inputs.size() + outputs.size()));
    }
    const auto as_buffer = [](const BufferView& view) {
      return EpStageBuffer{.data = reinterpret_cast<std::uint8_t*>(view.data), .bytes = view.bytes};
    };
    EpStageBuffer* const first_output =
        std::ranges::transform(inputs, buffers.begin(), as_buffer).out;
    std::ranges::transform(outputs, first_output, as_buffer);
    std::array<char, kMostErrorBytes> error{};
    const int code =
        function(context, buffers.data(), static_cast<std::uint32_t>(inputs.size()), first_output,
                 static_cast<std::uint32_t>(outputs.size()), error.data(), error.size());
    if (code == 0) return {};
    error.back() = '\0';
    return Status(Code::kInternal, error.front() != '\0' ? std::string(error.data())
                                                         : "returned " + std::to_string(code));
  }
};

}  // namespace

std::unique_ptr<FunctionStage> FunctionStage::create(std::string name, EpStageFunction function,
                                                     void* context) {
  return std::make_unique<FunctionStage>(std::move(name), CallFunction{function, context});
}

Result<std::unique_ptr<FunctionStage>> FunctionStage::open(std::string name,
                                                           const std::filesystem::path& library,
                                                           const std::string& symbol) {
  const std::string path = std::filesystem::absolute(library).string();
  Result<LoadedLibrary> opened = load_library_file(path, "library cannot be loaded");
  if (!opened.ok()) return opened.status();
  const std::shared_ptr<void> handle = *std::move(opened);
  void* const found = ::dlsym(handle.get(), symbol.c_str());
  if (found == nullptr) {
    return Status(Code::kNotFound, path + ": no function '" + symbol + "'",
                  "check its name, and declare it extern \"C\"");
  }
  const CallFunction call{reinterpret_cast<EpStageFunction>(found), nullptr};
  return std::make_unique<FunctionStage>(
      std::move(name),
      [handle, call](Views inputs, Views outputs) { return call(inputs, outputs); });
}

Status FunctionStage::bind(std::size_t slot, Views inputs, Views outputs) {
  if (slots_.size() <= slot) slots_.resize(slot + 1);
  slots_[slot] = {.inputs = {inputs.begin(), inputs.end()},
                  .outputs = {outputs.begin(), outputs.end()},
                  .bound = true};
  return {};
}

Status FunctionStage::run(std::size_t slot) {
  if (slot >= slots_.size() || !slots_[slot].bound) {
    return Status(Code::kInvalidArgument,
                  name_ + ": slot " + std::to_string(slot) + " is not bound");
  }
  // User code runs here; its exceptions must not end the thread.
  try {
    return body_(slots_[slot].inputs, slots_[slot].outputs);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return Status(Code::kInternal, std::string("exception: ") + error.what());
  } catch (...) {
    return Status(Code::kInternal, "exception that is not a std::exception");
  }
}

}  // namespace edgepipe
