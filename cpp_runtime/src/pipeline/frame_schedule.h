// FrameSchedule: decides which stage may run which frame, and tracks the state of each frame.
//
//   worker:  while (schedule.wait_until_ready(stage, frame)) {
//              const Clock::time_point started = Clock::now();
//              schedule.finish({stage, frame, thread}, run(stage, frame), started);
//              ++frame;
//            }
//            schedule.end_worker();
//   crew:    while (std::optional<Turn> turn = schedule.await_turn(crew, thread)) {
//              const Clock::time_point started = Clock::now();
//              schedule.finish(*turn, run(turn->stage, turn->frame), started);
//            }
//            schedule.end_worker();
//   caller:  acquire -> submit -> next -> release
//
// A worker is the only thread of its stages. The threads of a crew share theirs: each takes the
// oldest frame that a stage can run, and a stage runs its frames in order, one at a time.
//
// Counters behind one mutex, which is not held while a stage runs or while the caller fills or
// reads a frame. Independent of the stages' code, buffers and threads. A ring of slots limits the
// frames in flight: frame f has slot f % slots. Nothing here allocates unless it returns an error.
//
// Waking a thread can cost more than a run of the stage. If frames follow each other within
// microseconds, several frames therefore share a wake-up:
// * A stage without producers naps for a fixed time, and then runs the frames that have arrived.
// * A thread that waits for a stage dozes: it checks by itself after a millisecond. While all
//   threads that wait for a stage doze, the stage wakes them after its last ready frame or 50 us.
//
// Frames that arrive more slowly, or one by one, wake the next thread at once. So do crews: their
// threads have other stages to run. They sleep only if there is nothing to do, and poll first while
// their waits are as short as a wake-up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "pipeline/histogram.h"
#include "pipeline/span_ring.h"
#include "pipeline/wait_history.h"

namespace edgepipe {

class FrameSchedule {
 public:
  struct Stage {
    std::string name;
    std::vector<std::size_t> producers;  // stages that must finish a frame first
    std::size_t worker = 0;              // the worker or crew that runs it
  };
  struct Options {
    std::vector<Stage> stages;
    std::size_t workers = 0;  // threads
    std::size_t crews = 0;    // 0: the threads are workers
    std::size_t slots = 0;
    std::chrono::microseconds spin{0};  // see Pipeline::Options
    std::size_t trace_spans = 0;        // the same
  };
  /// A finished frame that the caller holds until release().
  struct Taken {
    std::uint64_t frame = 0;
    std::size_t slot = 0;
    std::chrono::nanoseconds latency{};
  };

  /// A stage's turn to run a frame, on a thread.
  struct Turn {
    std::size_t stage = 0;
    std::uint64_t frame = 0;
    std::size_t thread = 0;
  };

  explicit FrameSchedule(Options options);

  // ---- the caller's side, with the effects, waits and errors of Pipeline's functions

  /// Returns the slot of the next frame.
  Result<std::size_t> acquire(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Submits the frame in the acquired slot and returns its number.
  Result<std::uint64_t> submit(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  /// Returns an acquired slot without submitting a frame.
  void abandon(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Result<Taken> next(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Returns the slot of a taken frame.
  void release(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Status drain(std::uint64_t frames, Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  Status stop(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  void cancel() EDGEPIPE_EXCLUDES(mutex_);

  // Waits and queries without side effects, for any thread.
  [[nodiscard]] std::uint64_t submitted() const EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] bool has_slot() const EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] bool has_next() const EDGEPIPE_EXCLUDES(mutex_);
  Status await_slot(bool or_next, Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  Status await_frame(std::uint64_t frame, Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Blocks until all workers have ended; kDeadline if they have not, kInvalidArgument while frames
  /// are accepted or a slot is held.
  Status await_end(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);
  /// Restarts with frame 0; only after await_end().
  void reset() EDGEPIPE_EXCLUDES(mutex_);

  /// Everything except the stages' cores, retries and fallbacks.
  [[nodiscard]] PipelineStatistics statistics() const EDGEPIPE_EXCLUDES(mutex_);
  /// Adds the recorded spans and the first complete frame.
  void record(PipelineTrace& trace) const EDGEPIPE_EXCLUDES(mutex_);

  // ---- the stages' side; a stage runs the frames in order, starting at 0

  /// True once `stage` may run `frame`; false if it never will.
  bool wait_until_ready(std::size_t stage, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);
  /// Blocks until a stage of `crew` can run a frame; nothing once none ever will.
  std::optional<Turn> await_turn(std::size_t crew, std::size_t thread) EDGEPIPE_EXCLUDES(mutex_);
  void finish(const Turn& turn, Status status, Clock::time_point started) EDGEPIPE_EXCLUDES(mutex_);
  void end_worker() EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] const std::vector<Stage>& stages() const { return options_.stages; }
  /// Slots that are acquired or taken and not yet returned.
  [[nodiscard]] std::size_t leases() const EDGEPIPE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return leases_;
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t frame) const {
    return static_cast<std::size_t>(frame % options_.slots);
  }

 private:
  // Readable without the mutex. `published` is ahead of `finished` for the time that it takes to
  // acquire the mutex. Alone in its cache line, so that polling does not slow down others.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> published{0};
    std::atomic<bool> running{false};
  };
  // Only the thread of a stage touches its pace.
  struct Pace {
    Pace();
    WaitHistory for_naps;
    WaitHistory for_dozes;
    // Wake-ups that the stage still owes to dozing threads, and since when.
    bool owes_consumers = false;
    bool owes_completion = false;
    Clock::time_point owed_since;
  };
  // A crew's thread polls for this long before it sleeps, if its last waits were shorter.
  static constexpr std::chrono::microseconds kCrewPoll{50};
  // How often a crew has been told to look for a turn; for threads that poll.
  struct alignas(64) Calls {
    std::atomic<std::uint64_t> count{0};
  };
  // The consequences of a stage's finished frame.
  struct Finished {
    bool completes = false;  // every stage has finished it
    bool may_owe = false;    // the stage can run the next frame, and no thread sleeps
  };
  struct StageState {
    std::uint64_t finished = 0;  // frames 0..finished-1 are done
    Histogram busy;
  };
  struct SlotState {
    bool in_use = false;      // from acquire until its frame is released
    std::uint64_t frame = 0;  // that was last submitted in it
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
  void nap(std::size_t stage, std::uint64_t frame);
  void await_ready(std::size_t stage, std::uint64_t frame, MutexLock& lock)
      EDGEPIPE_REQUIRES(mutex_);
  template <typename Done>
  bool await_caller(CondVar& condition, MutexLock& lock, Clock::time_point deadline,
                    const Done& done) EDGEPIPE_REQUIRES(mutex_);
  bool consumer_sleeps(std::size_t stage) const EDGEPIPE_REQUIRES(mutex_);
  bool ready(std::size_t stage, std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  void fail(std::size_t stage, std::uint64_t frame, Status status) EDGEPIPE_REQUIRES(mutex_);
  void complete(std::uint64_t frame, Clock::time_point now) EDGEPIPE_REQUIRES(mutex_);
  void lower_limit(std::uint64_t limit) EDGEPIPE_REQUIRES(mutex_);
  Result<std::uint64_t> add_submitted(std::size_t index) EDGEPIPE_EXCLUDES(mutex_);
  Finished note_finished(const Turn& turn, Status status, Clock::time_point started,
                         Clock::time_point now) EDGEPIPE_EXCLUDES(mutex_);
  void wake_waiting(std::size_t stage) EDGEPIPE_EXCLUDES(mutex_);
  void wake_crews(std::size_t stage, bool completes) EDGEPIPE_EXCLUDES(mutex_);
  void call(std::size_t worker);
  bool take_turn(std::size_t crew, std::optional<Turn>& turn, std::uint64_t& seen)
      EDGEPIPE_EXCLUDES(mutex_);
  void sleep_until_turn(std::size_t crew, std::optional<Turn>& turn) EDGEPIPE_EXCLUDES(mutex_);
  bool next_turn(std::size_t crew, std::optional<Turn>& turn) EDGEPIPE_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Turn> oldest_turn(std::size_t crew) const EDGEPIPE_REQUIRES(mutex_);
  [[nodiscard]] bool has_ended(std::size_t crew) const EDGEPIPE_REQUIRES(mutex_);
  Status await_workers(MutexLock& lock, Clock::time_point deadline, const char* what)
      EDGEPIPE_REQUIRES(mutex_);
  bool full() const EDGEPIPE_REQUIRES(mutex_);
  Status full_status() const EDGEPIPE_REQUIRES(mutex_);
  Status unfinished_status(std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  Status end_status() const EDGEPIPE_REQUIRES(mutex_);
  std::string holder(std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  std::uint64_t waiting(std::size_t stage) const EDGEPIPE_REQUIRES(mutex_);

  const Options options_;
  std::vector<std::vector<std::size_t>>
      consumers_;  // workers or crews to wake after a stage finishes a frame
  std::vector<std::vector<std::size_t>> crews_;  // the stages of each crew
  std::deque<CondVar> wake_;                     // by worker or crew; a CondVar is not movable
  std::deque<Calls> calls_;                      // by crew
  std::vector<WaitHistory> crew_waits_;          // by thread, which alone touches its own
  std::vector<Progress> progress_;
  std::vector<Pace> paces_;  // by stage
  // Frames 0..runnable_-1 are submitted and below the limit; written with the mutex held.
  alignas(64) std::atomic<std::uint64_t> runnable_{0};

  mutable Mutex mutex_;
  CondVar slot_freed_;
  CondVar frame_completed_;
  CondVar worker_ended_;
  std::vector<bool> worker_sleeps_ EDGEPIPE_GUARDED_BY(mutex_);  // by worker; false: it dozes
  std::size_t sleeping_callers_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  WaitHistory caller_waits_ EDGEPIPE_GUARDED_BY(mutex_);
  std::vector<StageState> stages_ EDGEPIPE_GUARDED_BY(mutex_);
  std::vector<SlotState> slots_ EDGEPIPE_GUARDED_BY(mutex_);
  std::uint64_t submitted_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t completed_ EDGEPIPE_GUARDED_BY(mutex_) = 0;  // finished by every stage
  std::uint64_t delivered_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  // Frames from this number on are not finished. Ending a pipeline is one assignment: stop sets it
  // to `submitted_`, an error to its frame, cancel to `delivered_`.
  std::uint64_t limit_ EDGEPIPE_GUARDED_BY(mutex_) = UINT64_MAX;
  bool cancelled_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  bool filling_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // an acquired slot is held
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
