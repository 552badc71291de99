// FrameSchedule: which stage may run which frame, who waits for it, and what became of each frame.
//
//   worker:  while (schedule.wait_until_ready(stage, frame)) {
//              const Clock::time_point started = Clock::now();
//              schedule.finish(stage, frame, run(stage, frame), started);
//              ++frame;
//            }
//            schedule.end_worker();
//   caller:  acquire -> submit -> next -> release
//
// Counters behind one mutex, which is held neither while a stage runs nor while the caller fills or
// reads a frame. Knows no stage's code, buffer or thread. A ring of slots bounds the frames under
// way: frame f has slot f % slots. Nothing here allocates unless it returns an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "edgepipe/histogram.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/pipeline_trace.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class FrameSchedule {
 public:
  struct Stage {
    std::string name;
    std::vector<std::size_t> producers;  // stages that must have finished a frame before it
    std::size_t worker = 0;              // whose thread runs it
  };
  struct Options {
    std::vector<Stage> stages;
    std::size_t workers = 0;
    std::size_t slots = 0;
    std::chrono::microseconds spin{0};  // see Pipeline::Options
    std::size_t trace_spans = 0;        // likewise
  };
  /// A finished frame that the caller holds until release().
  struct Taken {
    std::uint64_t frame = 0;
    std::size_t slot = 0;
    std::chrono::nanoseconds latency{};
  };

  explicit FrameSchedule(Options options);

  // ---- the caller's side: effects, waits and errors are those of Pipeline's functions

  /// Gives the slot of the next frame.
  Result<std::size_t> acquire(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Sends the acquired slot's frame on its way and returns its number.
  Result<std::uint64_t> submit(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  /// Gives an acquired slot back without a frame.
  void abandon(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Result<Taken> next(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Gives a taken frame's slot back.
  void release(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Status drain(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  Status stop(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  void cancel() EDGEPIPE_EXCLUDES(mutex_);

  /// Blocks until all workers have ended; kDeadline if they have not, kInvalidArgument while frames
  /// are accepted or a slot is out.
  Status await_end(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Begins anew with frame 0; only after await_end().
  void reset() EDGEPIPE_EXCLUDES(mutex_);

  /// Everything but the stages' cores, retries and fallbacks.
  [[nodiscard]] PipelineStatistics statistics() const EDGEPIPE_EXCLUDES(mutex_);
  /// Adds the spans kept, and the first frame that is whole.
  void record(PipelineTrace& trace) const EDGEPIPE_EXCLUDES(mutex_);

  // ---- the stages' side; a stage runs the frames one after the other, from 0 on

  /// True once `stage` may run `frame`, false when it never will.
  bool wait_until_ready(std::size_t stage, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);
  void finish(std::size_t stage, std::uint64_t frame, const Status& status,
              Clock::time_point started) EDGEPIPE_EXCLUDES(mutex_);
  void end_worker() EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] const std::vector<Stage>& stages() const { return options_.stages; }
  /// Slots acquired or taken and not given back.
  [[nodiscard]] std::size_t leases() const EDGEPIPE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return leases_;
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t frame) const {
    return static_cast<std::size_t>(frame % options_.slots);
  }

 private:
  // What other threads may read without the mutex. `published` runs ahead of `finished` by the time
  // that it takes to get the mutex. Alone in its cache line, so that polling slows nobody down.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> published{0};
    std::atomic<bool> running{false};
  };
  struct StageState {
    std::uint64_t finished = 0;  // frames 0..finished-1 are done
    Histogram busy;
  };
  struct SlotState {
    bool in_use = false;      // from acquire until its frame is released
    std::uint64_t frame = 0;  // that was submitted in it last
    Clock::time_point acquired;
    Clock::time_point submitted;
    Clock::time_point taken;
    std::chrono::nanoseconds latency{};
  };
  struct Failure {
    std::uint64_t frame;
    std::size_t stage;
    Status status;
  };

  bool poll(std::size_t stage, std::uint64_t frame) const;
  bool ready(std::size_t stage, std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  void fail(std::size_t stage, std::uint64_t frame, const Status& status) EDGEPIPE_REQUIRES(mutex_);
  void complete(std::uint64_t frame, Clock::time_point now) EDGEPIPE_REQUIRES(mutex_);
  void lower_limit(std::uint64_t limit) EDGEPIPE_REQUIRES(mutex_);
  void free_slot(std::size_t slot) EDGEPIPE_REQUIRES(mutex_);
  Status await_workers(MutexLock& lock, Clock::time_point deadline, const char* what)
      EDGEPIPE_REQUIRES(mutex_);
  Status end_status() const EDGEPIPE_REQUIRES(mutex_);
  std::string holder(std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  std::uint64_t waiting(std::size_t stage) const EDGEPIPE_REQUIRES(mutex_);

  const Options options_;
  std::vector<std::vector<std::size_t>> consumers_;  // workers to wake when a stage has finished
  std::deque<CondVar> wake_;                         // by worker; a CondVar cannot move
  std::vector<Progress> progress_;
  // Frames 0..runnable_-1 are submitted and below the limit; written with the mutex held.
  alignas(64) std::atomic<std::uint64_t> runnable_{0};

  mutable Mutex mutex_;
  CondVar slot_freed_;
  CondVar frame_completed_;
  CondVar worker_ended_;
  std::vector<StageState> stages_ EDGEPIPE_GUARDED_BY(mutex_);
  std::vector<SlotState> slots_ EDGEPIPE_GUARDED_BY(mutex_);
  std::uint64_t submitted_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t completed_ EDGEPIPE_GUARDED_BY(mutex_) = 0;  // finished by every stage
  std::uint64_t delivered_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  // Frames from this number on are not run to their end. Everything that ends a pipeline is one
  // assignment: stop sets it to `submitted_`, an error to its frame, cancel to `delivered_`.
  std::uint64_t limit_ EDGEPIPE_GUARDED_BY(mutex_) = UINT64_MAX;
  bool cancelled_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  bool filling_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // an acquired slot is out
  std::size_t ended_workers_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  std::size_t leases_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  std::optional<Failure> failure_ EDGEPIPE_GUARDED_BY(mutex_);
  Histogram latency_ EDGEPIPE_GUARDED_BY(mutex_);
  SpanRing spans_ EDGEPIPE_GUARDED_BY(mutex_);
  Clock::time_point first_submit_ EDGEPIPE_GUARDED_BY(mutex_);
  Clock::time_point first_completion_ EDGEPIPE_GUARDED_BY(mutex_);
  Clock::time_point last_completion_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe
