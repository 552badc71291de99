#include "pipeline_module.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
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
#include "postprocess/result_bytes.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

constexpr double kLongestWaitS = 86400.0;  // a longer wait needs another call
constexpr std::chrono::milliseconds kCloseRetry{10};
constexpr double kCloseS = 5.0;  // how long releasing the last reference waits for the stages
constexpr std::int64_t kFull = -1;
constexpr int kCountBits = 16;

Clock::time_point after(double timeout_s) {
  const std::chrono::duration<double> wait(std::clamp(timeout_s, 0.0, kLongestWaitS));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

class PipelineModule final : public Methods<PipelineModule> {
 public:
  explicit PipelineModule(std::unique_ptr<RunningPipeline> pipeline)
      : sends_(pipeline->pipeline().slots()), pipeline_(pipeline.release()) {}

  PipelineModule(const PipelineModule&) = delete;
  PipelineModule& operator=(const PipelineModule&) = delete;

  ~PipelineModule() {
    const InterpreterLockReleased released;  // stages may need Python
    if (!end_within(kCloseS).ok()) leave_behind();
  }

  static std::span<const Method> methods() {
    static constexpr std::array kMethods = {
        entry<&PipelineModule::describe>("describe"),
        entry<&PipelineModule::submitted>("submitted"),
        entry<&PipelineModule::set_input>("set_input"),
        entry<&PipelineModule::get_input>("get_input"),
        entry<&PipelineModule::set_parameters>("set_parameters"),
        entry<&PipelineModule::send>("send"),
        entry<&PipelineModule::send_many>("send_many"),
        entry<&PipelineModule::withdraw>("withdraw"),
        entry<&PipelineModule::await_slot>("await_slot"),
        entry<&PipelineModule::await_frame>("await_frame"),
        entry<&PipelineModule::take>("take"),
        entry<&PipelineModule::drain>("drain"),
        entry<&PipelineModule::stop>("stop"),
        entry<&PipelineModule::cancel>("cancel"),
        entry<&PipelineModule::await_end>("await_end"),
        entry<&PipelineModule::restart>("restart"),
        entry<&PipelineModule::close>("close"),
        entry<&PipelineModule::leave>("leave"),
        entry<&PipelineModule::statistics>("statistics"),
        entry<&PipelineModule::write_trace>("write_trace")};
    return kMethods;
  }

  const char* kind() const final { return "edgepipe_pipeline"; }

 private:
  /// Keeps close() from freeing the pipeline during a call.
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
      if (module_.closing_) module_.changed_.notify();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    RunningPipeline* operator->() const { return pipeline_; }

   private:
    PipelineModule& module_;
    RunningPipeline* pipeline_;
  };

  /// Sends a frame from the arguments `begin` to `end`: an id and arrays.
  std::int64_t send_frame(RunningPipeline& pipeline, const ffi::PackedArgs& args, int begin,
                          int end) EDGEPIPE_REQUIRES(sending_) {
    const auto id = args[begin].cast<std::int64_t>();
    if (const Sent* sent = find_sent(id)) return sent->frame;
    std::vector<Content> contents;  // holds what `inputs` refers to
    contents.reserve(static_cast<std::size_t>(end - begin));
    std::vector<std::optional<RunningPipeline::Bytes>> inputs;
    inputs.reserve(static_cast<std::size_t>(end - begin));
    for (int index = begin + 1; index < end; ++index) {
      if (args[index] == nullptr) {
        inputs.emplace_back();
      } else {
        inputs.emplace_back(contents.emplace_back(args[index]).bytes());
      }
    }
    if (!pipeline.pipeline().has_slot()) return kFull;
    sends_[send_index(pipeline.pipeline().submitted())] = id;  // read once it is finished
    const auto frame = static_cast<std::int64_t>(value_of(pipeline.run(inputs)));
    sent_[sent_count_++ % sent_.size()] = {.id = id, .frame = frame};
    return frame;
  }

  struct Sent {
    std::int64_t id = 0;
    std::int64_t frame = kFull;
  };

  std::string describe() { return Use(*this)->describe(); }

  void set_input(const ffi::String& name, ffi::AnyView array) {
    check(Use(*this)->set_input(std::string(name), Content(array).bytes()));
  }

  ffi::Bytes get_input(const ffi::String& name) {
    return ffi::Bytes(value_of(Use(*this)->get_input(std::string(name))));
  }

  void set_parameters(ffi::PackedArgs args, ffi::Any*) {
    const auto group = args[0].cast<std::string>();
    const Use use(*this);
    MutexLock lock(sending_);  // no frame is sent between two of them
    for (int index = 1; index + 1 < args.size(); index += 2) {
      check(use->set_parameter(group, args[index].cast<std::string>(),
                               Content(args[index + 1]).bytes()));
    }
  }

  std::int64_t submitted() { return static_cast<std::int64_t>(Use(*this)->pipeline().submitted()); }

  void send(ffi::PackedArgs args, ffi::Any* result) {
    const Use use(*this);
    MutexLock lock(sending_);
    *result = send_frame(*use.operator->(), args, 0, args.size());
  }

  void send_many(ffi::PackedArgs args, ffi::Any* result) {
    const auto width = args[0].cast<int>();
    const Use use(*this);
    MutexLock lock(sending_);
    std::int64_t first = 0;
    std::int64_t count = 0;
    for (int index = 1; index < args.size(); index += width) {
      if (count > 0 && !use->pipeline().has_slot()) break;
      const std::int64_t frame = send_frame(*use.operator->(), args, index, index + width);
      if (frame == kFull) break;
      if (count++ == 0) first = frame;
    }
    *result = first << kCountBits | count;
  }

  void withdraw(std::int64_t id) {
    const Use use(*this);
    MutexLock lock(sending_);
    const Sent* sent = find_sent(id);
    if (sent == nullptr) return;
    std::int64_t expected = id;  // if this frame has been taken, the slot has another id
    sends_[static_cast<std::size_t>(sent->frame) % sends_.size()].compare_exchange_strong(
        expected, kWithdrawn);
  }

  /// The result of a wait: false for a deadline, unless this is the last part of the caller's wait.
  static bool waited(const Status& status, bool is_last) {
    if (status.code() == Code::kDeadline && !is_last) return false;
    check(status);
    return true;
  }

  bool await_slot(double timeout_s, bool is_last) {
    const Use use(*this);
    const bool is_owned = owned(send_of(next_.load()));
    return waited(use->pipeline().await_slot(is_owned, after(timeout_s)), is_last);
  }

  bool await_frame(std::int64_t frame, double timeout_s, bool is_last) {
    const auto number = static_cast<std::uint64_t>(frame);
    return waited(Use(*this)->pipeline().await_frame(number, after(timeout_s)), is_last);
  }

  void take(ffi::PackedArgs args, ffi::Any* result) {
    const auto first = args[0].cast<std::uint64_t>();
    const auto most =
        static_cast<std::size_t>(std::min<std::uint64_t>(args[1].cast<std::uint64_t>(), INT32_MAX));
    const bool owned_only = args[2].cast<bool>();
    const auto row = args[3].cast<std::size_t>();
    std::vector<std::span<std::byte>> wanted;
    for (int index = 4; index < args.size(); ++index) {
      wanted.push_back(memory_of(args[index].cast<ffi::TensorView>()));
    }
    const Use use(*this);
    MutexLock lock(taking_);
    if (first != next_.load()) {
      if (first != last_first_) {
        check(Status(Code::kInvalidArgument,
                     "take: found frame " + std::to_string(first) + ", expected frame " +
                         std::to_string(next_.load()) +
                         "; the pipeline has been restarted: call restart() again"));
      }
      *result = last_taken_;
      return;
    }
    check(use->undecoded());
    Pipeline& pipeline = use->pipeline();
    check_outputs(pipeline.graph(), wanted, row + most);
    std::string found;
    for (std::size_t count = 0; count < most && pipeline.has_next(); ++count) {
      if (owned_only && !owned(send_of(first + count))) break;
      Result<RunningPipeline::Taken> taken = use->take();
      if (!taken.ok()) {
        if (count > 0) break;  // the next call returns the error
        check(taken.status());
      }
      append_frame(found, *taken, pipeline.graph(), wanted, row + count);
      next_ = taken->frame.id() + 1;
    }
    *result = ffi::Bytes(std::move(found));
    if (first == next_.load()) return;
    last_first_ = first;
    last_taken_ = *result;
  }

  bool drain(std::int64_t frames, double timeout_s, bool is_last) {
    const auto count = static_cast<std::uint64_t>(frames);
    return waited(Use(*this)->pipeline().drain(count, after(timeout_s)), is_last);
  }
  bool stop(double timeout_s, bool is_last) {
    return waited(Use(*this)->pipeline().stop(after(timeout_s)), is_last);
  }
  void cancel() { Use(*this)->pipeline().cancel(); }

  bool await_end(std::int64_t generation, double timeout_s, bool is_last) {
    const Use use(*this);
    if (generation == generation_) return true;
    return waited(use->pipeline().await_end(after(timeout_s)), is_last);
  }

  bool restart(std::int64_t generation, double timeout_s, bool is_last) {
    const Use use(*this);
    MutexLock sending(sending_);
    MutexLock taking(taking_);
    if (generation == generation_) return true;
    if (!waited(use->restart(after(timeout_s)), is_last)) return false;
    generation_ = generation;
    next_ = 0;
    sent_ = {};
    last_first_ = kNone;
    return true;
  }

  bool close(double timeout_s, bool is_last) { return waited(end_within(timeout_s), is_last); }

  void leave() { leave_behind(); }

  /// Refuses a forked child, whose copy of the mutex another thread may have locked forever.
  void check_process() const {
    if (owner_.is_here()) return;
    check(Status(Code::kInvalidArgument, "pipeline: belongs to process " +
                                             std::to_string(owner_.process()) +
                                             ", this is process " + std::to_string(::getpid())));
  }

  /// Cancels, and frees the pipeline once no call and no stage uses it.
  Status end_within(double timeout_s) {
    if (!owner_.is_here()) return {};
    const Clock::time_point deadline = after(timeout_s);
    OwnedHere<RunningPipeline> ended;  // freed after the lock is released
    MutexLock lock(mutex_);
    closing_ = true;
    while (pipeline_) {
      pipeline_->pipeline().cancel();  // again after a restart in between
      Status status = pipeline_->pipeline().await_end(Clock::now());
      if (users_ == 0 && status.ok()) {
        ended = std::move(pipeline_);
      } else if (Clock::now() >= deadline) {
        return status.ok() ? Status(Code::kDeadline, "another thread uses the pipeline") : status;
      } else {
        changed_.wait_until(lock, std::min(deadline, Clock::now() + kCloseRetry));
      }
    }
    return {};
  }

  /// Abandons a pipeline whose stages do not end, with the memory that they use.
  void leave_behind() {
    if (!owner_.is_here()) return;
    MutexLock lock(mutex_);
    closing_ = true;
    if (!pipeline_) return;
    pipeline_->detach();
    static_cast<void>(pipeline_.release());
  }

  std::string statistics() { return Use(*this)->pipeline().statistics().json(); }

  void write_trace(const std::string& path) {  // as bytes too: a file's name need not be UTF-8
    check(Use(*this)->pipeline().trace().write(path));
  }

  [[nodiscard]] const Sent* find_sent(std::int64_t id) const EDGEPIPE_REQUIRES(sending_) {
    const auto found = std::ranges::find(sent_, id, &Sent::id);
    return id == 0 || found == sent_.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::int64_t send_of(std::uint64_t frame) const {
    return sends_[send_index(frame)];
  }

  [[nodiscard]] std::size_t send_index(std::uint64_t frame) const {
    return static_cast<std::size_t>(frame % sends_.size());
  }

  /// Whether a frame belongs to a future or has been withdrawn. Any caller may take the others.
  static bool owned(std::int64_t id) { return (id & 1) != 0; }

  void append_frame(std::string& found, const RunningPipeline::Taken& taken, const Graph& graph,
                    std::span<const std::span<std::byte>> wanted, std::size_t row) const {
    append(found, taken.frame.id());
    append(found, static_cast<std::uint64_t>(taken.frame.latency().count()));
    append(found, send_of(taken.frame.id()));
    append_result(found, taken.result);
    for (std::size_t index = 0; index < graph.outputs.size(); ++index) {
      const std::span<const std::byte> content = taken.frame.output(index);
      if (wanted.empty()) {
        append(found, content);
      } else {
        std::ranges::copy(content, wanted[index].subspan(row * content.size()).begin());
      }
    }
  }

  static void check_outputs(const Graph& graph, std::span<const std::span<std::byte>> wanted,
                            std::size_t rows) {
    if (wanted.empty()) return;
    bool fits = wanted.size() == graph.outputs.size();
    for (std::size_t index = 0; fits && index < wanted.size(); ++index) {
      fits = wanted[index].size() >= rows * graph.tensors[graph.outputs[index]].bytes;
    }
    if (!fits) {
      check(
          Status(Code::kInvalidArgument, "take: found other tensors than one for each output, of " +
                                             std::to_string(rows) + " frames or more"));
    }
  }

  static constexpr std::int64_t kWithdrawn = -1;  // nobody waits for this owned frame
  static constexpr std::uint64_t kNone = UINT64_MAX;

  Mutex sending_;
  std::array<Sent, 16> sent_ EDGEPIPE_GUARDED_BY(sending_);  // the last ones
  std::size_t sent_count_ EDGEPIPE_GUARDED_BY(sending_) = 0;
  std::vector<std::atomic<std::int64_t>> sends_;  // by slot: the id that its frame was sent with
  std::atomic<std::uint64_t> next_{0};            // to be taken; written with `taking_` held
  Mutex taking_;
  std::uint64_t last_first_ EDGEPIPE_GUARDED_BY(taking_) = kNone;  // of what was taken last ...
  ffi::Any last_taken_ EDGEPIPE_GUARDED_BY(taking_);               // ... and what take returned
  std::atomic<std::int64_t> generation_{0};
  const DeleteHere owner_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  int users_ EDGEPIPE_GUARDED_BY(mutex_) = 0;  // calls in progress
  OwnedHere<RunningPipeline> pipeline_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace

ffi::Module make_pipeline_module(std::unique_ptr<RunningPipeline> pipeline) {
  return ffi::Module(ffi::make_object<PipelineModule>(std::move(pipeline)));
}

}  // namespace edgepipe::binding
