#include "pipeline/frame_schedule.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/polling.h"
#include "pipeline/recovering_stage.h"

namespace edgepipe {
namespace {

// The nap of a stage without producers: long enough for two frames to arrive.
constexpr std::chrono::microseconds kNap{60};
constexpr std::chrono::microseconds kShortBeforeNap{100};
// A doze is longer than the waits that lead to it, so it seldom ends by itself.
constexpr std::chrono::microseconds kDoze{1000};
constexpr std::chrono::microseconds kShortBeforeDoze{500};
// The longest delay of a wake-up by a stage that continues with ready frames.
constexpr std::chrono::microseconds kLongestDelay{50};

constexpr const char* kMoreTime = "allow more time";
constexpr const char* kStartAgain = "start the pipeline again";

std::uint64_t nanoseconds(Clock::duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

FrameSchedule::Pace::Pace() : for_naps(kShortBeforeNap), for_dozes(kShortBeforeDoze) {}

FrameSchedule::FrameSchedule(Options options)
    : options_(std::move(options)),
      consumers_(options_.stages.size()),
      crews_(options_.crews),
      wake_(options_.crews == 0 ? options_.workers : options_.crews),
      calls_(options_.crews),
      crew_waits_(options_.crews == 0 ? 0 : options_.workers, WaitHistory(kCrewPoll)),
      progress_(options_.stages.size()),
      paces_(options_.stages.size()),
      worker_sleeps_(options_.workers),
      caller_waits_(kShortBeforeDoze),
      stages_(options_.stages.size()),
      slots_(options_.slots),
      spans_(options_.trace_spans) {
  for (const Stage& stage : options_.stages) {
    for (const std::size_t producer : stage.producers) consumers_[producer].push_back(stage.worker);
  }
  if (crews_.empty()) return;
  for (std::size_t stage = 0; stage < options_.stages.size(); ++stage) {
    crews_[options_.stages[stage].worker].push_back(stage);
  }
}

// ---- the caller's side

Result<std::size_t> FrameSchedule::acquire(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto ready = [&]() EDGEPIPE_REQUIRES(mutex_) { return filling_ || !full(); };
  if (!await_caller(slot_freed_, lock, deadline, ready)) return full_status();
  if (filling_) {  // before or during the wait
    return Status(Code::kInvalidArgument, "frame " + std::to_string(submitted_) +
                                              " is already being filled; submit or release it");
  }
  if (limit_ != UINT64_MAX) return end_status();
  const std::size_t slot = slot_of(submitted_);
  slots_[slot].in_use = true;
  if (spans_.enabled()) slots_[slot].acquired = Clock::now();
  filling_ = true;
  ++leases_;
  return slot;
}

// Notifications below come after the mutex is free: a thread that wakes while the other still holds
// it would go back to sleep at once.

Result<std::uint64_t> FrameSchedule::submit(std::size_t index) {
  Result<std::uint64_t> frame = add_submitted(index);
  if (!frame.ok()) return frame;
  // Only stages without producers can become ready.
  for (const Stage& stage : options_.stages) {
    if (stage.producers.empty()) call(stage.worker);
  }
  return frame;
}

Result<std::uint64_t> FrameSchedule::add_submitted(std::size_t index) {
  MutexLock lock(mutex_);
  filling_ = false;
  --leases_;
  SlotState& slot = slots_[index];
  if (limit_ != UINT64_MAX) {
    slot.in_use = false;
    return end_status();
  }
  const Clock::time_point now = Clock::now();
  if (submitted_ == 0) first_submit_ = now;
  const std::uint64_t frame = submitted_++;
  slot.frame = frame;
  slot.submitted = now;
  spans_.add({.frame = frame, .begin = slot.acquired, .end = now, .kind = Span::Kind::kFill});
  runnable_.store(submitted_, std::memory_order_release);
  return frame;
}

void FrameSchedule::abandon(std::size_t slot) {
  {
    MutexLock lock(mutex_);
    filling_ = false;
    slots_[slot].in_use = false;
    --leases_;
  }
  slot_freed_.notify();
}

Result<FrameSchedule::Taken> FrameSchedule::next(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto ready = [&]() EDGEPIPE_REQUIRES(mutex_) {
    return completed_ > delivered_ || delivered_ >= limit_;
  };
  if (!await_caller(frame_completed_, lock, deadline, ready)) return unfinished_status(delivered_);
  if (delivered_ >= limit_) return end_status();
  const std::uint64_t frame = delivered_++;
  SlotState& slot = slots_[slot_of(frame)];
  ++leases_;
  if (spans_.enabled()) slot.taken = Clock::now();
  return Taken{.frame = frame, .slot = slot_of(frame), .latency = slot.latency};
}

void FrameSchedule::release(std::size_t index) {
  {
    MutexLock lock(mutex_);
    SlotState& slot = slots_[index];
    if (spans_.enabled()) {
      spans_.add({.frame = slot.frame,
                  .begin = slot.taken,
                  .end = Clock::now(),
                  .kind = Span::Kind::kTake});
    }
    slot.in_use = false;
    --leases_;
  }
  slot_freed_.notify();
}

Status FrameSchedule::drain(std::uint64_t frames, Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto drained = [&]() EDGEPIPE_REQUIRES(mutex_) {
    return completed_ >= std::min(frames, limit_);
  };
  if (!await_caller(frame_completed_, lock, deadline, drained)) {
    return Status(Code::kDeadline, "frames are unfinished at the deadline: " + holder(completed_),
                  kMoreTime);
  }
  if (failure_ || cancelled_) return end_status();
  return {};
}

std::uint64_t FrameSchedule::submitted() const {
  MutexLock lock(mutex_);
  return submitted_;
}

bool FrameSchedule::has_slot() const {
  MutexLock lock(mutex_);
  return !full();
}

bool FrameSchedule::has_next() const {
  MutexLock lock(mutex_);
  return completed_ > delivered_ || delivered_ >= limit_;
}

Status FrameSchedule::await_slot(bool or_next, Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto ready = [&]() EDGEPIPE_REQUIRES(mutex_) {
    return !full() || (or_next && completed_ > delivered_);
  };
  if (!await_caller(slot_freed_, lock, deadline, ready)) return full_status();
  return {};
}

Status FrameSchedule::await_frame(std::uint64_t frame, Clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto ready = [&]() EDGEPIPE_REQUIRES(mutex_) {
    return completed_ > frame || frame >= limit_;
  };
  if (!await_caller(frame_completed_, lock, deadline, ready)) return unfinished_status(frame);
  return {};
}

/// Waits until `done()` is true; false at the deadline. The condition is notified when a frame is
/// complete, among others.
template <typename Done>
bool FrameSchedule::await_caller(CondVar& condition, MutexLock& lock, Clock::time_point deadline,
                                 const Done& done) {
  if (done()) return true;
  const Clock::time_point begin = Clock::now();
  if (caller_waits_.all_short()) {
    const Clock::time_point end = std::min(deadline, begin + kDoze);
    while (!done() && condition.wait_until(lock, end)) continue;
  }
  ++sleeping_callers_;
  bool in_time = true;
  while (!done() && in_time) in_time = condition.wait_until(lock, deadline);
  --sleeping_callers_;
  caller_waits_.add(Clock::now() - begin);
  return done();
}

bool FrameSchedule::full() const {
  return limit_ == UINT64_MAX && slots_[slot_of(submitted_)].in_use;
}

Status FrameSchedule::full_status() const {
  const std::uint64_t frame = submitted_ - slots_.size();
  return {Code::kDeadline,
          "no free slot before the deadline: all " + std::to_string(slots_.size()) +
              " are in use; " +
              (frame < delivered_
                   ? "frame " + std::to_string(frame) + " has been taken but not released"
                   : holder(frame)),
          "take finished frames and release them, allow more time, or use more slots"};
}

Status FrameSchedule::unfinished_status(std::uint64_t frame) const {
  return {Code::kDeadline,
          "no finished frame before the deadline: " +
              (submitted_ <= frame ? std::string("none is in the pipeline") : holder(frame)),
          kMoreTime};
}

Status FrameSchedule::stop(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  lower_limit(submitted_);
  Status status = await_workers(lock, deadline, "drained");
  if (status.ok() && (failure_ || cancelled_)) return end_status();
  return status;
}

void FrameSchedule::cancel() {
  MutexLock lock(mutex_);
  // A stopped pipeline that has delivered everything remains stopped.
  if (delivered_ < limit_) cancelled_ = true;
  lower_limit(delivered_);
}

Status FrameSchedule::await_end(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  if (limit_ == UINT64_MAX) {
    return Status(Code::kInvalidArgument, "the pipeline is running; stop or cancel it first");
  }
  if (Status status = await_workers(lock, deadline, "ended"); !status.ok()) return status;
  if (leases_ != 0) {
    return Status(Code::kInvalidArgument,
                  std::to_string(leases_) + " frames have been taken and not released");
  }
  return {};
}

Status FrameSchedule::await_workers(MutexLock& lock, Clock::time_point deadline, const char* what) {
  while (ended_workers_ < options_.workers) {
    if (!worker_ended_.wait_until(lock, deadline) && ended_workers_ < options_.workers) {
      return Status(Code::kDeadline,
                    std::string("the pipeline has not ") + what +
                        " before the deadline: " + holder(completed_),
                    kMoreTime);
    }
  }
  return {};
}

void FrameSchedule::reset() {
  MutexLock lock(mutex_);
  std::ranges::fill(stages_, StageState());
  std::ranges::fill(slots_, SlotState());
  for (Progress& progress : progress_) {
    progress.published = 0;
    progress.running = false;  // still true if its thread ended for want of memory
  }
  std::ranges::fill(paces_, Pace());
  submitted_ = completed_ = delivered_ = 0;
  runnable_ = 0;
  limit_ = UINT64_MAX;
  cancelled_ = false;
  ended_workers_ = 0;
  failure_.reset();
  latency_ = Histogram();
  spans_.clear();
}

void FrameSchedule::lower_limit(std::uint64_t limit) {
  limit_ = std::min(limit_, limit);
  runnable_.store(std::min(submitted_, limit_), std::memory_order_release);
  for (CondVar& wake : wake_) wake.notify();
  for (Calls& calls : calls_) ++calls.count;
  slot_freed_.notify();
  frame_completed_.notify();
}

/// The reason why there are no more frames; only after the limit is set.
Status FrameSchedule::end_status() const {
  if (failure_) {
    // A deadline inside a stage must not look like a deadline of the caller's own wait.
    const Status& status = failure_->status;
    const bool looks_like_a_wait =
        status.code() == Code::kDeadline || status.code() == Code::kClosed;
    return Status(looks_like_a_wait ? Code::kDevice : status.code(), status.message(),
                  status.hint())
        .with_context(
            place_of(failure_->stage, options_.stages[failure_->stage].name, failure_->frame));
  }
  if (cancelled_) return Status(Code::kCancelled, "the pipeline has been cancelled", kStartAgain);
  return Status(Code::kClosed, "the pipeline has been stopped", kStartAgain);
}

/// What an unfinished frame is waiting for.
std::string FrameSchedule::holder(std::uint64_t frame) const {
  const std::string text = "frame " + std::to_string(frame);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    if (stages_[stage].finished > frame) continue;
    return text + (progress_[stage].running ? " is held by stage " : " waits for stage ") +
           std::to_string(stage) + " '" + options_.stages[stage].name + "'";
  }
  return text + " is finished and waits to be taken with next()";
}

// ---- the stages' side

bool FrameSchedule::wait_until_ready(std::size_t stage, std::uint64_t frame) {
  std::atomic<bool>& running = progress_[stage].running;
  if (poll(stage, frame)) {
    running.store(true, std::memory_order_relaxed);
    return true;
  }
  if (paces_[stage].for_naps.all_short()) nap(stage, frame);
  MutexLock lock(mutex_);
  if (frame < limit_ && !ready(stage, frame)) await_ready(stage, frame, lock);
  if (frame >= limit_) return false;
  running.store(true, std::memory_order_relaxed);
  return true;
}

void FrameSchedule::nap(std::size_t stage, std::uint64_t frame) {
  if (runnable_.load(std::memory_order_acquire) > frame) return;
  std::this_thread::sleep_for(kNap);
  const bool several = runnable_.load(std::memory_order_acquire) > frame + 1;
  paces_[stage].for_naps.judge(several);
}

/// Waits until `stage` may run `frame` or the frame is past the limit.
void FrameSchedule::await_ready(std::size_t stage, std::uint64_t frame, MutexLock& lock) {
  const std::size_t worker = options_.stages[stage].worker;
  CondVar& wake = wake_[worker];
  Pace& pace = paces_[stage];
  const auto done = [&]() EDGEPIPE_REQUIRES(mutex_) {
    return frame >= limit_ || ready(stage, frame);
  };
  const Clock::time_point begin = Clock::now();
  if (pace.for_dozes.all_short()) {
    while (!done() && wake.wait_until(lock, begin + kDoze)) continue;
  }
  worker_sleeps_[worker] = true;
  // An idle camera is not a fault; stop() and cancel() end this wait.
  while (!done()) static_cast<void>(wake.wait_until(lock, far_future()));
  worker_sleeps_[worker] = false;
  const Clock::duration waited = Clock::now() - begin;
  pace.for_dozes.add(waited);
  if (options_.stages[stage].producers.empty()) pace.for_naps.add(waited);
}

/// True once `stage` may run `frame`; false if Options::spin passes first.
bool FrameSchedule::poll(std::size_t stage, std::uint64_t frame) const {
  if (options_.spin.count() == 0) return false;
  const std::vector<std::size_t>& producers = options_.stages[stage].producers;
  return poll_for(options_.spin, [&] {
    return frame < runnable_.load(std::memory_order_acquire) &&
           std::ranges::all_of(producers, [&](std::size_t producer) {
             return progress_[producer].published.load(std::memory_order_acquire) > frame;
           });
  });
}

bool FrameSchedule::ready(std::size_t stage, std::uint64_t frame) const {
  if (submitted_ <= frame) return false;
  for (const std::size_t producer : options_.stages[stage].producers) {
    if (stages_[producer].finished <= frame) return false;
  }
  return true;
}

void FrameSchedule::finish(const Turn& turn, Status status, Clock::time_point started) {
  const std::size_t stage = turn.stage;
  if (status.ok()) progress_[stage].published.store(turn.frame + 1, std::memory_order_release);
  const Clock::time_point now = Clock::now();
  const bool good = status.ok();
  const Finished finished = note_finished(turn, std::move(status), started, now);
  if (!good) return;  // every thread has been woken
  if (!crews_.empty()) return wake_crews(stage, finished.completes);
  Pace& pace = paces_[stage];
  if (!pace.owes_consumers) pace.owed_since = now;
  pace.owes_consumers = true;
  pace.owes_completion = pace.owes_completion || finished.completes;
  if (!finished.may_owe || now - pace.owed_since >= kLongestDelay) wake_waiting(stage);
}

/// Wakes the threads that wait for a stage's finished frames.
void FrameSchedule::wake_waiting(std::size_t stage) {
  Pace& pace = paces_[stage];
  pace.owes_consumers = false;
  for (const std::size_t consumer : consumers_[stage]) wake_[consumer].notify_one();
  if (!std::exchange(pace.owes_completion, false)) return;
  frame_completed_.notify();
  slot_freed_.notify();  // see await_slot
}

/// True if a stage that waits for this one sleeps, so that it does not check by itself.
bool FrameSchedule::consumer_sleeps(std::size_t stage) const {
  for (const std::size_t consumer : consumers_[stage]) {
    if (worker_sleeps_[consumer]) return true;
  }
  return false;
}

FrameSchedule::Finished FrameSchedule::note_finished(const Turn& turn, Status status,
                                                     Clock::time_point started,
                                                     Clock::time_point now) {
  const auto [stage, frame, thread] = turn;
  MutexLock lock(mutex_);
  progress_[stage].running.store(false, std::memory_order_relaxed);
  spans_.add({.frame = frame,
              .begin = started,
              .end = now,
              .stage = static_cast<std::uint32_t>(stage),
              .thread = static_cast<std::uint32_t>(thread),
              .kind = Span::Kind::kStage,
              .failed = !status.ok()});
  if (!status.ok()) {
    fail(stage, frame, std::move(status));
    return {};
  }
  StageState& state = stages_[stage];
  state.busy.add(nanoseconds(now - started));
  state.finished = frame + 1;
  std::uint64_t completed = state.finished;
  for (const StageState& other : stages_) completed = std::min(completed, other.finished);
  const bool completes = completed != completed_;
  if (completes) complete(frame, now);
  const bool goes_on = frame + 1 < limit_ && ready(stage, frame + 1);
  const bool somebody_sleeps = consumer_sleeps(stage) || (completes && sleeping_callers_ > 0);
  return {.completes = completes, .may_owe = goes_on && !somebody_sleeps};
}

/// If several stages fail, the error of the earliest frame is reported, or of the earliest stage
/// for the same frame, so a run always fails in the same way. Errors of frames at or past the limit
/// are ignored, because those frames are dropped anyway.
void FrameSchedule::fail(std::size_t stage, std::uint64_t frame, Status status) {
  const bool earlier_stage = failure_ && failure_->frame == frame && stage < failure_->stage;
  if (frame >= limit_ && !earlier_stage) return;
  failure_ = {.frame = frame, .stage = stage, .status = std::move(status)};
  lower_limit(frame);
}

/// The last stage of a frame has finished it. Stages finish frames in order, so it is the next one.
void FrameSchedule::complete(std::uint64_t frame, Clock::time_point now) {
  completed_ = frame + 1;
  SlotState& slot = slots_[slot_of(frame)];
  slot.latency = now - slot.submitted;
  latency_.add(nanoseconds(slot.latency));
  if (completed_ == 1) first_completion_ = now;
  last_completion_ = now;
}

void FrameSchedule::end_worker() {
  MutexLock lock(mutex_);
  ++ended_workers_;
  worker_ended_.notify();
}

// ---- statistics

/// Frames that a stage could run: finished by all its producers and not started by the stage.
std::uint64_t FrameSchedule::waiting(std::size_t stage) const {
  std::uint64_t ready = std::min(submitted_, limit_);
  for (const std::size_t producer : options_.stages[stage].producers) {
    ready = std::min(ready, stages_[producer].finished);
  }
  const std::uint64_t begun = stages_[stage].finished + (progress_[stage].running ? 1 : 0);
  return ready - std::min(ready, begun);
}

PipelineStatistics FrameSchedule::statistics() const {
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
  std::ranges::transform(kLatencyBounds_ms, statistics.latency_within.begin(), [&](double bound) {
    return latency_.count_within(static_cast<std::uint64_t>(bound * 1e6));
  });
  if (completed_ > 0) statistics.elapsed_s = seconds(last_completion_ - first_submit_);
  const double steady_s = seconds(last_completion_ - first_completion_);
  if (completed_ > 1 && steady_s > 0) {
    statistics.frames_per_second = static_cast<double>(completed_ - 1) / steady_s;
  }
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    StageStatistics& entry = statistics.stages.emplace_back();
    entry.name = options_.stages[stage].name;
    entry.busy = summarise(stages_[stage].busy);
    entry.waiting = waiting(stage);
    if (statistics.elapsed_s > 0) {
      entry.utilisation =
          static_cast<double>(stages_[stage].busy.total()) / 1e9 / statistics.elapsed_s;
    }
  }
  return statistics;
}

void FrameSchedule::record(PipelineTrace& trace) const {
  MutexLock lock(mutex_);
  trace.spans = spans_.spans();
  trace.first_frame = spans_.first_whole_frame();
}

}  // namespace edgepipe
