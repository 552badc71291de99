// HostedFunction: a function of TVM-FFI, such as a Python one, as a stage of a pipeline.
//
//   HostedFunction function(python_function);
//   hosted.push_back({.name = name, .function = HostedFunction::call, .context = &function});
#pragma once

#include <tvm/ffi/function.h>

#include <cstdint>
#include <utility>

#include "edgepipe/stage_function.h"

namespace edgepipe::binding {

class HostedFunction {
 public:
  /// `function` gets a tensor of bytes for each input, then for each output: the pipeline's own
  /// memory, for the time of the call. What it throws is the frame's error.
  explicit HostedFunction(tvm::ffi::Function function) : function_(std::move(function)) {}

  /// An EpStageFunction; `context` is the object.
  static int call(void* context, const EpStageBuffer* inputs, std::uint32_t input_count,
                  const EpStageBuffer* outputs, std::uint32_t output_count, char* error,
                  std::uint64_t error_bytes);

 private:
  tvm::ffi::Function function_;
};

}  // namespace edgepipe::binding
