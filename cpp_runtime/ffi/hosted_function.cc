#include "hosted_function.h"

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>

#include <span>
#include <vector>

#include "array.h"
#include "interpreter_lock.h"
#include "stage_error.h"

namespace edgepipe::binding {

namespace ffi = tvm::ffi;

int HostedFunction::call(void* context, const EpStageBuffer* inputs, std::uint32_t input_count,
                         const EpStageBuffer* outputs, std::uint32_t output_count, char* error,
                         std::uint64_t error_bytes) {
  keep_interpreter_thread();
  return guarded(
      [&] {
        const auto& hosted = *static_cast<const HostedFunction*>(context);
        std::vector<ffi::Any> tensors;
        tensors.reserve(std::size_t{input_count} + output_count);
        const auto add = [&](const EpStageBuffer& buffer) {
          const std::span bytes(buffer.data, static_cast<std::size_t>(buffer.bytes));
          tensors.emplace_back(borrow(std::as_writable_bytes(bytes), hosted.memory_));
        };
        for (const EpStageBuffer& buffer : std::span(inputs, input_count)) add(buffer);
        for (const EpStageBuffer& buffer : std::span(outputs, output_count)) add(buffer);
        const std::vector<ffi::AnyView> arguments(tensors.begin(), tensors.end());
        ffi::Any result;
        hosted.function_.CallPacked(arguments.data(), static_cast<std::int32_t>(arguments.size()),
                                    &result);
      },
      error, error_bytes);
}

}  // namespace edgepipe::binding
