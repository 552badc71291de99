#include "pipeline_module.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "edgepipe/sync.h"
#include "interpreter_lock.h"
#include "methods.h"
#include "owned_here.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

constexpr double kLongestWaitS = 86400.0;  // longer is no wait with a deadline: ask again
constexpr std::chrono::milliseconds kCloseRetry{10};

// What get_output returns is these objects as they are.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Detection) == 24 && sizeof(ClassScore) == 12);

Clock::time_point after(double timeout_s) {
  const std::chrono::duration<double> wait(std::clamp(timeout_s, 0.0, kLongestWaitS));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

template <typename T>
void append(std::string& bytes, std::span<const T> objects) {
  bytes.append(reinterpret_cast<const char*>(objects.data()), objects.size_bytes());
}

template <typename T>
void append(std::string& bytes, T object) {
  append(bytes, std::span<const T>(&object, 1));
}

class PipelineModule final : public Methods<PipelineModule> {
 public:
  explicit PipelineModule(std::unique_ptr<RunningPipeline> pipeline)
      : pipeline_(pipeline.release()) {}

  PipelineModule(const PipelineModule&) = delete;
  PipelineModule& operator=(const PipelineModule&) = delete;

  ~PipelineModule() {
    const InterpreterLockReleased released;
    pipeline_.reset();  // waits for its stages, which may be Python's
  }

  static std::span<const Method> methods() {
    static constexpr std::array kMethods = {entry<&PipelineModule::describe>("describe"),
                                            entry<&PipelineModule::set_input>("set_input"),
                                            entry<&PipelineModule::get_input>("get_input"),
                                            entry<&PipelineModule::set_parameter>("set_parameter"),
                                            entry<&PipelineModule::run>("run"),
                                            entry<&PipelineModule::await_slot>("await_slot"),
                                            entry<&PipelineModule::get_output>("get_output"),
                                            entry<&PipelineModule::drain>("drain"),
                                            entry<&PipelineModule::stop>("stop"),
                                            entry<&PipelineModule::cancel>("cancel"),
                                            entry<&PipelineModule::restart>("restart"),
                                            entry<&PipelineModule::close>("close"),
                                            entry<&PipelineModule::statistics>("statistics"),
                                            entry<&PipelineModule::write_trace>("write_trace")};
    return kMethods;
  }

  const char* kind() const final { return "edgepipe_pipeline"; }

 private:
  /// Holds the pipeline against close() for the time of a call.
  class Use {
   public:
    explicit Use(PipelineModule& module) : module_(module) {
      module.check_process();
      MutexLock lock(module.mutex_);
      if (module.closing_) {
        check(Status(Code::kInvalidArgument, "pipeline: used after close()"));
      }
      ++module.users_;
      pipeline_ = module.pipeline_.get();
    }
    ~Use() {
      MutexLock lock(module_.mutex_);
      --module_.users_;
      module_.changed_.notify();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    RunningPipeline* operator->() const { return pipeline_; }

   private:
    PipelineModule& module_;
    RunningPipeline* pipeline_;
  };

  std::string describe() { return Use(*this)->describe(); }

  void set_input(const ffi::String& name, ffi::AnyView array) {
    check(Use(*this)->set_input(std::string(name), Content(array).bytes()));
  }

  ffi::Bytes get_input(const ffi::String& name) {
    return ffi::Bytes(value_of(Use(*this)->get_input(std::string(name))));
  }

  void set_parameter(const ffi::String& group, const ffi::String& parameter, ffi::AnyView array) {
    check(Use(*this)->set_parameter(std::string(group), std::string(parameter),
                                    Content(array).bytes()));
  }

  void run(ffi::PackedArgs args, ffi::Any* result) {
    std::vector<Content> contents;  // holds what `inputs` refers to
    contents.reserve(static_cast<std::size_t>(args.size()));
    std::vector<std::optional<RunningPipeline::Bytes>> inputs;
    for (int index = 1; index < args.size(); ++index) {
      if (args[index] == nullptr) {
        inputs.emplace_back();
      } else {
        inputs.emplace_back(contents.emplace_back(args[index]).bytes());
      }
    }
    const auto deadline = after(args[0].cast<double>());
    *result = static_cast<std::int64_t>(value_of(Use(*this)->run(inputs, deadline)));
  }

  void await_slot(double timeout_s) {
    check(Use(*this)->pipeline().acquire(after(timeout_s)).status());
  }

  void get_output(ffi::PackedArgs args, ffi::Any* result) {
    std::vector<std::span<std::byte>> wanted;
    for (int index = 1; index < args.size(); ++index) {
      wanted.push_back(memory_of(args[index].cast<ffi::TensorView>()));
    }
    const Use use(*this);
    const Graph& graph = use->pipeline().graph();
    check_outputs(graph, wanted);
    const RunningPipeline::Taken taken = value_of(use->take(after(args[0].cast<double>())));
    std::string found;
    append(found, taken.frame.id());
    append(found, static_cast<std::uint64_t>(taken.frame.latency().count()));
    append(found, static_cast<std::uint32_t>(taken.result.detections.size()));
    append(found, static_cast<std::uint32_t>(taken.result.classes.size()));
    append(found, taken.result.detections);
    append(found, taken.result.classes);
    for (std::size_t index = 0; index < graph.outputs.size(); ++index) {
      const std::span<const std::byte> content = taken.frame.output(index);
      if (wanted.empty()) {
        append(found, content);
      } else {
        std::memcpy(wanted[index].data(), content.data(), content.size());
      }
    }
    *result = ffi::Bytes(std::move(found));
  }

  void drain(double timeout_s) { check(Use(*this)->pipeline().drain(after(timeout_s))); }
  void stop(double timeout_s) { check(Use(*this)->pipeline().stop(after(timeout_s))); }
  void cancel() { Use(*this)->pipeline().cancel(); }
  void restart(double timeout_s) { check(Use(*this)->restart(after(timeout_s))); }

  /// Refuses a forked child, whose copy of the mutex another thread may have locked for ever.
  void check_process() const {
    if (owner_.is_here()) return;
    check(Status(Code::kInvalidArgument, "pipeline: belongs to process " +
                                             std::to_string(owner_.process()) +
                                             ", this is process " + std::to_string(::getpid())));
  }

  void close() {
    if (!owner_.is_here()) return;
    OwnedHere<RunningPipeline> ended;  // after the lock: it waits for its stages
    MutexLock lock(mutex_);
    closing_ = true;
    while (pipeline_) {
      pipeline_->pipeline().cancel();  // each time, as a restart may have come in between
      if (users_ == 0) {
        ended = std::move(pipeline_);
      } else {
        changed_.wait_until(lock, Clock::now() + kCloseRetry);
      }
    }
  }

  std::string statistics() { return Use(*this)->pipeline().statistics().json(); }

  void write_trace(const std::string& path) {  // as bytes too: a file's name need not be UTF-8
    check(Use(*this)->pipeline().trace().write(path));
  }

  static void check_outputs(const Graph& graph, std::span<const std::span<std::byte>> wanted) {
    if (wanted.empty()) return;
    bool fits = wanted.size() == graph.outputs.size();
    for (std::size_t index = 0; fits && index < wanted.size(); ++index) {
      fits = wanted[index].size() == graph.tensors[graph.outputs[index]].bytes;
    }
    if (!fits) {
      check(Status(Code::kInvalidArgument,
                   "get_output: found other tensors than one for each output, of its bytes"));
    }
  }

  const DeleteHere owner_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  int users_ EDGEPIPE_GUARDED_BY(mutex_) = 0;  // calls under way
  OwnedHere<RunningPipeline> pipeline_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace

ffi::Module make_pipeline_module(std::unique_ptr<RunningPipeline> pipeline) {
  return ffi::Module(ffi::make_object<PipelineModule>(std::move(pipeline)));
}

}  // namespace edgepipe::binding
