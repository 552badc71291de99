#include "pipeline_module.h"

#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe::rpc {
namespace {

namespace ffi = tvm::ffi;

constexpr double kMostWaitS = 10.0;  // a client asks again: meanwhile the session answers nothing

void check_code(const Status& status) {
  if (status.ok()) return;
  TVM_FFI_THROW(RuntimeError) << "status " << static_cast<int>(status.code()) << ": "
                              << status.message();
}

template <typename T>
T value_or_code(Result<T> result) {
  check_code(result.status());
  return std::move(*result);
}

Clock::time_point after(double timeout_s) {
  const std::chrono::duration<double> wait(std::clamp(timeout_s, 0.0, kMostWaitS));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

std::string_view view(const ffi::Bytes& bytes) { return {bytes.data(), bytes.size()}; }

class PipelineModule : public ffi::ModuleObj {
 public:
  explicit PipelineModule(std::unique_ptr<ServedPipeline> pipeline)
      : served_(std::move(pipeline)) {}

  const char* kind() const final { return "edgepipe_pipeline"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    const std::string_view text(name.data(), name.size());
    if (ffi::Optional<ffi::Function> frames = frame_function(text)) return frames;
    return end_function(text);
  }

 private:
  // Functions keep the module, and so the pipeline, alive.
  [[nodiscard]] ffi::Module self() { return ffi::GetRef<ffi::Module>(this); }

  ffi::Optional<ffi::Function> frame_function(std::string_view name) {
    ServedPipeline* served = served_.get();
    if (name == "set_input") {
      return make([self = self(), served](const ffi::String& input, const ffi::Bytes& content) {
        check_code(served->set_input(std::string(input), view(content)));
      });
    }
    if (name == "get_input") {
      return make([self = self(), served](const ffi::String& input) {
        return ffi::Bytes(value_or_code(served->get_input(std::string(input))));
      });
    }
    if (name == "set_parameter") {
      return make([self = self(), served](const ffi::String& group, const ffi::String& parameter,
                                          const ffi::Bytes& content) {
        check_code(
            served->set_parameter(std::string(group), std::string(parameter), view(content)));
      });
    }
    if (name == "run") {
      return make([self = self(), served](double timeout_s) {
        return static_cast<std::int64_t>(value_or_code(served->run(after(timeout_s))));
      });
    }
    if (name == "get_output") {
      return make([self = self(), served](double timeout_s) {
        return ffi::Bytes(value_or_code(served->get_output(after(timeout_s))));
      });
    }
    return std::nullopt;
  }

  ffi::Optional<ffi::Function> end_function(std::string_view name) {
    ServedPipeline* served = served_.get();
    if (name == "describe") {
      return make([self = self(), served] { return ffi::String(served->describe()); });
    }
    if (name == "statistics") {
      return make(
          [self = self(), served] { return ffi::String(served->pipeline().statistics().json()); });
    }
    if (name == "drain") {
      return make([self = self(), served](double timeout_s) {
        check_code(served->pipeline().drain(after(timeout_s)));
      });
    }
    if (name == "stop") {
      return make([self = self(), served](double timeout_s) {
        check_code(served->pipeline().stop(after(timeout_s)));
      });
    }
    if (name == "cancel") {
      return make([self = self(), served] { served->pipeline().cancel(); });
    }
    if (name == "restart") {
      return make([self = self(), served](double timeout_s) {
        check_code(served->restart(after(timeout_s)));
      });
    }
    return std::nullopt;
  }

  template <typename Callable>
  static ffi::Function make(Callable callable) {
    return ffi::Function::FromTyped(std::move(callable));
  }

  const std::unique_ptr<ServedPipeline> served_;
};

}  // namespace

ffi::Module make_pipeline_module(std::unique_ptr<ServedPipeline> pipeline) {
  return ffi::Module(ffi::make_object<PipelineModule>(std::move(pipeline)));
}

}  // namespace edgepipe::rpc
