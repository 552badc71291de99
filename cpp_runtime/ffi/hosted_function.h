// HostedFunction: a function of TVM-FFI, such as a Python one, as a stage of a pipeline.
//
//   HostedFunction function(python_function);
//   hosted.push_back({.name = name, .function = HostedFunction::call, .context = &function});
#pragma once

#include <tvm/ffi/function.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "edgepipe/stage_function.h"

namespace edgepipe::binding {

class HostedFunction {
 public:
  /// `function` gets a tensor of bytes for each input, then for each output. They are the
  /// pipeline's memory, which later frames reuse after the call. An exception becomes the frame's
  /// error.
  explicit HostedFunction(tvm::ffi::Function function) : function_(std::move(function)) {}

  /// The memory that the tensors keep alive, so a function may read one even after the pipeline has
  /// ended. Call it before the first frame.
  void set_memory(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }

  /// An EpStageFunction; `context` is the object.
  static int call(void* context, const EpStageBuffer* inputs, std::uint32_t input_count,
                  const EpStageBuffer* outputs, std::uint32_t output_count, char* error,
                  std::uint64_t error_bytes);

 private:
  tvm::ffi::Function function_;
  std::shared_ptr<const void> memory_;
};

}  // namespace edgepipe::binding
