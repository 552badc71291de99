#include "edgepipe/pipeline.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace edgepipe {
namespace {

std::uint64_t nanoseconds(Clock::duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// A look at the clock takes about as long as this many looks at a counter.
constexpr int kPollsPerClock = 16;

/// Tells the core that this is a loop that waits.
void pause_polling() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

DurationSummary summarise(const Histogram& histogram) {
  const auto ms = [](std::uint64_t value_ns) { return static_cast<double>(value_ns) / 1e6; };
  DurationSummary summary;
  summary.count = histogram.count();
  if (summary.count == 0) return summary;
  summary.min_ms = ms(histogram.min());
  summary.median_ms = ms(histogram.percentile(0.50));
  summary.p95_ms = ms(histogram.percentile(0.95));
  summary.p99_ms = ms(histogram.percentile(0.99));
  summary.max_ms = ms(histogram.max());
  summary.mean_ms = ms(histogram.total()) / static_cast<double>(summary.count);
  return summary;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(Graph graph, DeviceMemory& memory,
                                                   const Options& options) {
  if (Status status = graph.validate(); !status.ok()) return status;
  const std::size_t slots = options.slots == 0 ? graph.nodes.size() + 2 : options.slots;
  Result<SlotBuffers> buffers = SlotBuffers::create(graph.tensors, slots, memory);
  if (!buffers.ok()) return buffers.status().with_context("pipeline");

  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(graph), std::move(*buffers), options));
  if (Status status = pipeline->bind_stages(); !status.ok()) return status;
  if (Status status = pipeline->start_workers(); !status.ok()) return status;
  return pipeline;
}

Pipeline::Pipeline(Graph graph, SlotBuffers buffers, const Options& options)
    : graph_(std::move(graph)),
      buffers_(std::move(buffers)),
      options_(options),
      workers_(options.mode == Mode::kSerial ? 1 : graph_.nodes.size()),
      progress_(graph_.nodes.size()),
      stages_(graph_.nodes.size()),
      slots_(buffers_.slots()),
      spans_(options.trace_spans) {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const std::size_t worker = options.mode == Mode::kSerial ? 0 : stage;
    workers_[worker].stages.push_back(stage);
    producers_.push_back(graph_.producers(stage));
    for (const std::size_t producer : producers_[stage]) {
      stages_[producer].consumers.push_back(worker);
    }
  }
}

Pipeline::~Pipeline() {
  cancel();
  for (Worker& worker : workers_) worker.thread.reset();
  MutexLock lock(mutex_);
  assert(leases_ == 0 && "a frame's lease outlives its pipeline");
}

Status Pipeline::bind_stages() {
  const auto views = [this](std::size_t slot, const std::vector<std::size_t>& tensors) {
    std::vector<BufferView> found;
    found.reserve(tensors.size());
    for (const std::size_t tensor : tensors) found.push_back(buffers_.view(slot, tensor));
    return found;
  };
  for (const StageNode& node : graph_.nodes) {
    for (std::size_t slot = 0; slot < buffers_.slots(); ++slot) {
      for (Stage* const stage : {node.stage.get(), node.fallback.get()}) {
        if (stage == nullptr) continue;
        const Status status = stage->bind(slot, views(slot, node.reads), views(slot, node.writes));
        if (!status.ok()) {
          return status.with_context("binding stage '" + std::string(stage->name()) + "'");
        }
      }
    }
  }
  return {};
}

Status Pipeline::start_workers() {
  std::vector<StageThread> threads = options_.threads;
  if (threads.empty()) {
    for (const int core : Thread::cores()) threads.push_back({.cores = {core}});
  }
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    Worker& worker = workers_[index];
    Thread::Options wanted;
    wanted.name = worker_name(worker);
    if (!threads.empty()) {
      const StageThread& as = threads[index % threads.size()];
      wanted.realtime_priority = as.realtime_priority;
      if (options_.pinning != Pinning::kOff) wanted.cores = as.cores;
    }
    Result<Thread> thread = Thread::start(wanted, [this, &worker] { work(worker); });
    if (!thread.ok() && options_.pinning == Pinning::kPreferred && !wanted.cores.empty()) {
      wanted.cores.clear();
      thread = Thread::start(wanted, [this, &worker] { work(worker); });
    }
    if (!thread.ok()) return thread.status().with_context("pipeline");
    worker.thread.emplace(std::move(*thread));
    MutexLock lock(mutex_);  // a restart may be watched through statistics()
    worker.cores = wanted.cores;
  }
  return {};
}

std::string Pipeline::worker_name(const Worker& worker) const {
  return worker.stages.size() > 1 ? "serial"
                                  : std::string(graph_.nodes[worker.stages.front()].stage->name());
}

// ---- the stages' threads

void Pipeline::work(Worker& worker) {
  for (std::uint64_t frame = 0;; ++frame) {
    for (const std::size_t stage : worker.stages) {
      if (!wait_until_ready(worker, stage, frame)) {
        MutexLock lock(mutex_);
        ++ended_workers_;
        worker_ended_.notify();
        return;
      }
      const Clock::time_point started = Clock::now();
      const Status status = run_stage(stage, frame);
      finish(stage, frame, status, started);
    }
  }
}

/// True once `stage` may run `frame`; false when Options::spin has passed before.
bool Pipeline::poll(std::size_t stage, std::uint64_t frame) const {
  if (options_.spin.count() == 0) return false;
  const auto is_ready = [&] {
    return frame < runnable_.load(std::memory_order_acquire) &&
           std::ranges::all_of(producers_[stage], [&](std::size_t producer) {
             return progress_[producer].published.load(std::memory_order_acquire) > frame;
           });
  };
  const Clock::time_point end = Clock::now() + options_.spin;
  do {
    for (int i = 0; i < kPollsPerClock; ++i) {
      if (is_ready()) return true;
      pause_polling();
    }
  } while (Clock::now() < end);
  return false;
}

Status Pipeline::run_stage(std::size_t stage, std::uint64_t frame) {
  const StageNode& node = graph_.nodes[stage];
  const std::size_t slot = slot_of(frame);
  if (node.fallback != nullptr && has_fallen_back(stage)) return run_fallback(stage, frame);
  Status status = node.stage->run(slot);
  if (status.code() == Code::kDeadline && node.stage->repeatable()) {
    note_fault(stage, frame, status, "the frame is run once more");
    status = node.stage->run(slot);
    MutexLock lock(mutex_);
    ++stages_[stage].retries;
  }
  const bool device_failed = status.code() == Code::kDevice ||
                             (status.code() == Code::kDeadline && node.stage->repeatable());
  if (!device_failed || node.fallback == nullptr) return status;
  note_fault(stage, frame, status, "its fallback takes over");
  {
    MutexLock lock(mutex_);
    stages_[stage].fallen_back = true;
  }
  return run_fallback(stage, frame);
}

bool Pipeline::has_fallen_back(std::size_t stage) const {
  MutexLock lock(mutex_);
  return stages_[stage].fallen_back;
}

Status Pipeline::run_fallback(std::size_t stage, std::uint64_t frame) {
  Status status = graph_.nodes[stage].fallback->run(slot_of(frame));
  if (!status.ok()) return status.with_context("fallback");
  MutexLock lock(mutex_);
  ++stages_[stage].fallback_frames;
  return status;
}

void Pipeline::note_fault(std::size_t stage, std::uint64_t frame, const Status& status,
                          const char* remedy) {
  std::string what = place(stage, frame) + ": " + status.message() + "; " + remedy;
  if (options_.on_fault) options_.on_fault(what);
  MutexLock lock(mutex_);
  stages_[stage].fault = std::move(what);
}

std::string Pipeline::place(std::size_t stage, std::uint64_t frame) const {
  return "stage " + std::to_string(stage) + " '" + std::string(graph_.nodes[stage].stage->name()) +
         "' at frame " + std::to_string(frame);
}

/// True once `stage` may run `frame`, false when it never will.
bool Pipeline::wait_until_ready(Worker& worker, std::size_t stage, std::uint64_t frame) {
  if (poll(stage, frame)) {
    progress_[stage].running.store(true, std::memory_order_relaxed);
    return true;
  }
  MutexLock lock(mutex_);
  while (frame < limit_ && !ready(stage, frame)) {
    // An idle camera is no fault; stop() and cancel() wake this up.
    static_cast<void>(worker.wake.wait_until(lock, far_future()));
  }
  if (frame >= limit_) return false;
  progress_[stage].running.store(true, std::memory_order_relaxed);
  return true;
}

bool Pipeline::ready(std::size_t stage, std::uint64_t frame) const {
  if (submitted_ <= frame) return false;
  for (const std::size_t producer : producers_[stage]) {
    if (stages_[producer].finished <= frame) return false;
  }
  return true;
}

void Pipeline::finish(std::size_t stage, std::uint64_t frame, const Status& status,
                      Clock::time_point started) {
  Progress& progress = progress_[stage];
  if (status.ok()) progress.published.store(frame + 1, std::memory_order_release);
  const Clock::time_point now = Clock::now();
  progress.running.store(false, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  spans_.add({.frame = frame,
              .begin = started,
              .end = now,
              .stage = static_cast<std::uint32_t>(stage),
              .kind = Span::Kind::kStage,
              .failed = !status.ok()});
  StageState& state = stages_[stage];
  if (!status.ok()) {
    // Several stages may fail; the error of the earliest frame, then of the earliest stage, is the
    // one that counts, so a run fails the same way every time. Frames at or past the limit are lost
    // anyway, and so are their errors.
    const bool earlier_stage = failure_ && failure_->frame == frame && stage < failure_->stage;
    if (frame < limit_ || earlier_stage) {
      failure_ = {.frame = frame, .stage = stage, .status = status};
      lower_limit(frame);
    }
    return;
  }
  state.busy.add(nanoseconds(now - started));
  state.finished = frame + 1;
  for (const std::size_t consumer : state.consumers) workers_[consumer].wake.notify();

  std::uint64_t completed = state.finished;
  for (const StageState& other : stages_) completed = std::min(completed, other.finished);
  if (completed == completed_) return;
  completed_ = completed;  // at most one more: this stage was the last one of this frame
  SlotState& slot = slots_[slot_of(frame)];
  slot.latency = now - slot.submitted;
  latency_.add(nanoseconds(slot.latency));
  if (completed_ == 1) first_completion_ = now;
  last_completion_ = now;
  frame_completed_.notify();
}

// ---- the caller's side

Result<InputFrame> Pipeline::acquire(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  if (filling_) {
    return Status(Code::kInvalidArgument, "frame " + std::to_string(submitted_) +
                                              " is already being filled; submit or release it");
  }
  const std::size_t slot = slot_of(submitted_);
  while (limit_ == UINT64_MAX && slots_[slot].in_use) {
    if (!slot_freed_.wait_until(lock, deadline) && limit_ == UINT64_MAX && slots_[slot].in_use) {
      const std::uint64_t frame = submitted_ - slots_.size();
      return Status(Code::kDeadline,
                    "no free slot before the deadline: all " + std::to_string(slots_.size()) +
                        " are in use; " +
                        (frame < delivered_
                             ? "frame " + std::to_string(frame) + " has been taken but not released"
                             : holder(frame)));
    }
  }
  if (limit_ != UINT64_MAX) return end_status();
  slots_[slot].in_use = true;
  if (spans_.enabled()) slots_[slot].acquired = Clock::now();
  filling_ = true;
  ++leases_;
  return InputFrame(this, slot);
}

Result<std::uint64_t> Pipeline::submit(InputFrame frame) {
  MutexLock lock(mutex_);
  if (frame.pipeline_ != this) {
    return Status(Code::kInvalidArgument, "the frame has been submitted or is another pipeline's");
  }
  frame.pipeline_ = nullptr;
  filling_ = false;
  --leases_;
  if (limit_ != UINT64_MAX) {
    slots_[frame.slot_].in_use = false;
    return end_status();
  }
  const Clock::time_point now = Clock::now();
  if (submitted_ == 0) first_submit_ = now;
  const std::uint64_t id = submitted_++;
  SlotState& slot = slots_[frame.slot_];
  slot.frame = id;
  slot.submitted = now;
  spans_.add({.frame = id, .begin = slot.acquired, .end = now, .kind = Span::Kind::kFill});
  runnable_.store(submitted_, std::memory_order_release);
  // Only stages without producers can have become ready.
  for (Worker& worker : workers_) {
    if (producers_[worker.stages.front()].empty()) worker.wake.notify();
  }
  return id;
}

Result<std::uint64_t> Pipeline::submit(std::span<const std::span<const std::byte>> inputs,
                                       Clock::time_point deadline) {
  if (inputs.size() != graph_.inputs.size()) {
    return Status(Code::kInvalidArgument, "a frame has " + std::to_string(inputs.size()) +
                                              " inputs, expected " +
                                              std::to_string(graph_.inputs.size()));
  }
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const TensorSpec& tensor = graph_.tensors[graph_.inputs[index]];
    if (inputs[index].size() != tensor.bytes) {
      return Status(Code::kInvalidArgument, "input '" + tensor.name + "' has " +
                                                std::to_string(inputs[index].size()) +
                                                " bytes, expected " + std::to_string(tensor.bytes));
    }
  }
  Result<InputFrame> frame = acquire(deadline);
  if (!frame.ok()) return frame.status();
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    std::memcpy(frame->input(index).data(), inputs[index].data(), inputs[index].size());
  }
  return submit(std::move(*frame));
}

Result<OutputFrame> Pipeline::next(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (delivered_ < limit_ && completed_ <= delivered_) {
    if (!frame_completed_.wait_until(lock, deadline) && delivered_ < limit_ &&
        completed_ <= delivered_) {
      return Status(Code::kDeadline, "no finished frame before the deadline: " +
                                         (submitted_ <= delivered_ ? "none is in the pipeline"
                                                                   : holder(delivered_)));
    }
  }
  if (delivered_ >= limit_) return end_status();
  const std::uint64_t id = delivered_++;
  const std::size_t slot = slot_of(id);
  ++leases_;
  if (spans_.enabled()) slots_[slot].taken = Clock::now();
  return OutputFrame(this, slot, id, slots_[slot].latency);
}

Status Pipeline::drain(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const std::uint64_t last = submitted_;
  while (completed_ < std::min(last, limit_)) {
    if (!frame_completed_.wait_until(lock, deadline) && completed_ < std::min(last, limit_)) {
      return Status(Code::kDeadline,
                    "frames are unfinished at the deadline: " + holder(completed_));
    }
  }
  if (failure_ || cancelled_) return end_status();
  return {};
}

Status Pipeline::stop(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  lower_limit(submitted_);
  while (ended_workers_ < workers_.size()) {
    if (!worker_ended_.wait_until(lock, deadline) && ended_workers_ < workers_.size()) {
      return Status(Code::kDeadline,
                    "the pipeline has not drained before the deadline: " + holder(completed_));
    }
  }
  if (failure_ || cancelled_) return end_status();
  return {};
}

void Pipeline::cancel() {
  MutexLock lock(mutex_);
  // A stopped pipeline that has delivered everything stays stopped.
  if (delivered_ < limit_) cancelled_ = true;
  lower_limit(delivered_);
}

Status Pipeline::restart(Clock::time_point deadline) {
  {
    MutexLock lock(mutex_);
    if (limit_ == UINT64_MAX) {
      return Status(Code::kInvalidArgument, "the pipeline is running; stop or cancel it first");
    }
    while (ended_workers_ < workers_.size()) {
      if (!worker_ended_.wait_until(lock, deadline) && ended_workers_ < workers_.size()) {
        return Status(Code::kDeadline,
                      "the pipeline has not ended before the deadline: " + holder(completed_));
      }
    }
    if (leases_ != 0) {
      return Status(Code::kInvalidArgument,
                    std::to_string(leases_) + " frames have been taken and not released");
    }
  }
  for (Worker& worker : workers_) worker.thread.reset();
  {
    MutexLock lock(mutex_);
    for (StageState& stage : stages_) {
      stage.finished = 0;
      stage.busy = Histogram();
      stage.retries = stage.fallback_frames = 0;
      stage.fault.clear();
      stage.fallen_back = false;
    }
    std::ranges::fill(slots_, SlotState());
    for (Progress& progress : progress_) progress.published = 0;
    submitted_ = completed_ = delivered_ = 0;
    runnable_ = 0;
    limit_ = UINT64_MAX;
    cancelled_ = false;
    ended_workers_ = 0;
    failure_.reset();
    latency_ = Histogram();
    spans_.clear();
  }
  Status status = start_workers();
  if (!status.ok()) cancel();
  return status;
}

void Pipeline::lower_limit(std::uint64_t limit) {
  limit_ = std::min(limit_, limit);
  runnable_.store(std::min(submitted_, limit_), std::memory_order_release);
  for (Worker& worker : workers_) worker.wake.notify();
  slot_freed_.notify();
  frame_completed_.notify();
}

/// Why there are no more frames; only once the limit is set.
Status Pipeline::end_status() const {
  if (failure_) {
    // A deadline that passed inside a stage must not look like one of the caller's own waits.
    const Status& status = failure_->status;
    const bool looks_like_a_wait =
        status.code() == Code::kDeadline || status.code() == Code::kClosed;
    return Status(looks_like_a_wait ? Code::kDevice : status.code(), status.message())
        .with_context(place(failure_->stage, failure_->frame));
  }
  if (cancelled_) return Status(Code::kCancelled, "the pipeline has been cancelled");
  return Status(Code::kClosed, "the pipeline has been stopped");
}

/// What an unfinished frame is waiting for.
std::string Pipeline::holder(std::uint64_t frame) const {
  const std::string text = "frame " + std::to_string(frame);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    if (stages_[stage].finished > frame) continue;
    return text + (progress_[stage].running ? " is held by stage " : " waits for stage ") +
           std::to_string(stage) + " '" + std::string(graph_.nodes[stage].stage->name()) + "'";
  }
  return text + " is finished and waits to be taken with next()";
}

void Pipeline::release(std::size_t slot) {
  MutexLock lock(mutex_);
  slots_[slot].in_use = false;
  --leases_;
  slot_freed_.notify();
}

// ---- leases

InputFrame::~InputFrame() {
  if (pipeline_ != nullptr) pipeline_->release_input(slot_);
}

void Pipeline::release_input(std::size_t slot) {
  {
    MutexLock lock(mutex_);
    filling_ = false;
  }
  release(slot);
}

std::span<std::byte> InputFrame::input(std::size_t index) const {
  const BufferView& view = pipeline_->buffers_.view(slot_, pipeline_->graph_.inputs[index]);
  return {view.data, view.bytes};
}

OutputFrame::~OutputFrame() {
  if (pipeline_ != nullptr) pipeline_->release_output(slot_);
}

void Pipeline::release_output(std::size_t slot) {
  {
    MutexLock lock(mutex_);
    if (spans_.enabled()) {
      spans_.add({.frame = slots_[slot].frame,
                  .begin = slots_[slot].taken,
                  .end = Clock::now(),
                  .kind = Span::Kind::kTake});
    }
  }
  release(slot);
}

std::span<const std::byte> OutputFrame::output(std::size_t index) const {
  return tensor(pipeline_->graph_.outputs[index]);
}

std::span<const std::byte> OutputFrame::tensor(std::size_t index) const {
  const BufferView& view = pipeline_->buffers_.view(slot_, index);
  return {view.data, view.bytes};
}

/// Frames that a stage could run: finished by all that it reads from, and not begun by itself.
std::uint64_t Pipeline::waiting(std::size_t stage) const {
  std::uint64_t ready = std::min(submitted_, limit_);
  for (const std::size_t producer : producers_[stage]) {
    ready = std::min(ready, stages_[producer].finished);
  }
  const std::uint64_t begun = stages_[stage].finished + (progress_[stage].running ? 1 : 0);
  return ready - std::min(ready, begun);
}

PipelineStatistics Pipeline::statistics() const {
  MutexLock lock(mutex_);
  PipelineStatistics statistics;
  statistics.slots = slots_.size();
  statistics.submitted = submitted_;
  statistics.delivered = delivered_;
  const std::uint64_t lost = submitted_ > limit_ ? submitted_ - limit_ : 0;
  statistics.failed = failure_ ? 1 : 0;
  statistics.dropped = lost - statistics.failed;
  statistics.in_flight = submitted_ - delivered_ - lost;
  statistics.latency = summarise(latency_);
  if (completed_ > 0) statistics.elapsed_s = seconds(last_completion_ - first_submit_);
  const double steady_s = seconds(last_completion_ - first_completion_);
  if (completed_ > 1 && steady_s > 0) {
    statistics.frames_per_second = static_cast<double>(completed_ - 1) / steady_s;
  }
  for (const Worker& worker : workers_) {
    for (const std::size_t stage : worker.stages) {
      StageStatistics entry;
      entry.name = graph_.nodes[stage].stage->name();
      entry.cores = worker.cores;
      entry.busy = summarise(stages_[stage].busy);
      entry.waiting = waiting(stage);
      entry.retries = stages_[stage].retries;
      entry.fallback_frames = stages_[stage].fallback_frames;
      entry.fault = stages_[stage].fault;
      if (statistics.elapsed_s > 0) {
        entry.utilisation =
            static_cast<double>(stages_[stage].busy.total()) / 1e9 / statistics.elapsed_s;
      }
      statistics.stages.push_back(std::move(entry));
    }
  }
  return statistics;
}

PipelineTrace Pipeline::trace() const {
  PipelineTrace trace;
  for (const Worker& worker : workers_) {
    for (const std::size_t stage : worker.stages) {
      trace.stages.push_back({.name = std::string(graph_.nodes[stage].stage->name()),
                              .thread = trace.threads.size(),
                              .producers = producers_[stage]});
    }
    trace.threads.push_back(worker_name(worker));
  }
  MutexLock lock(mutex_);
  trace.spans = spans_.spans();
  trace.first_frame = spans_.first_whole_frame();
  return trace;
}

}  // namespace edgepipe
