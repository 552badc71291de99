// Pipeline: runs the stages of a graph on frames, each stage on its own pinned thread.
//
//   Result<std::unique_ptr<Pipeline>> made = Pipeline::create(std::move(graph), memory, {});
//   Pipeline& pipeline = **made;
//   pipeline.submit(pictures, Clock::now() + 1s);              // blocks while all slots are in use
//   Result<OutputFrame> frame = pipeline.next(Clock::now() + 1s);  // in the order of submission
//   use(frame->output(0));
//   pipeline.stop(Clock::now() + 5s);
//
// A ring of slots holds one buffer per tensor of the graph, so a hand-over between stages moves a
// counter, never data. Stage k runs frame f once every stage it reads from has finished f.
//
//            create                 stop             last frame finished
//    (none) --------> [ running ] -------> [ draining ] -------> [ stopped ]
//                        |   |                |     |                |
//      a stage's error   |   '----------------|-----'----------------'---> [ cancelled ]
//      at frame n        '---------> [ failed ]         cancel
//
// running    frames are accepted, run and delivered.
// draining   no frame is accepted; those submitted are finished and delivered.
// stopped    the threads have ended; finished frames can still be taken, then next() is kClosed.
// failed     frames before n are finished and delivered, then next() is the error, which names
//            stage and frame; n is failed, later frames are dropped.
// cancelled  what was not delivered is dropped; next() is kCancelled.
//
// A device that fails is no stage's error yet. A repeatable stage (stage.h) whose run ends in
// kDeadline runs the frame once more. If that fails too, or with kDevice, the node's fallback runs
// this frame and all later ones; without one the pipeline fails. Statistics count both.
//
// restart() leads from stopped, failed and cancelled back to running, with the same stages.
//
// Threads: one thread submits and one takes results, possibly the same one; statistics(), stop()
// and cancel() are for any thread. After create() nothing here allocates unless it returns an
// error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/frame.h"
#include "edgepipe/graph.h"
#include "edgepipe/histogram.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/pipeline_trace.h"
#include "edgepipe/slot_buffers.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "edgepipe/thread.h"

namespace edgepipe {

class Pipeline {
 public:
  enum class Mode {
    kPipelined,  // one thread per stage: several frames at once
    kSerial,     // one thread runs all stages of a frame, then the next frame
  };
  enum class Pinning {
    kRequired,   // create() fails when a thread cannot be pinned
    kPreferred,  // such a thread runs unpinned; statistics() shows it
    kOff,        // no thread is pinned
  };
  /// Where and how urgently a stage's thread runs.
  struct StageThread {
    std::vector<int> cores;     // it may run on these; empty: on any
    int realtime_priority = 0;  // see Thread::Options
  };
  struct Options {
    Mode mode = Mode::kPipelined;
    std::size_t slots = 0;  // frames in the ring; 0: one per stage and two for the caller
    Pinning pinning = Pinning::kRequired;
    // Stage k runs as threads[k % n] says; empty: on one of the process's cores each.
    std::vector<StageThread> threads;
    // How long a stage's thread polls for its next frame before it sleeps. Polling takes its core
    // all the time and a hand-over then a fraction of a microsecond instead of a wake-up.
    std::chrono::microseconds spin{0};
    std::size_t trace_spans = 0;  // how many spans trace() can give; 0: none are recorded
    // Told what a device did and what is done about it, as it happens, on the stage's thread.
    std::function<void(const std::string& what)> on_fault = {};
  };

  /// Allocates the slots from `memory`, binds every stage to them and starts the threads. Takes the
  /// stages over; `memory` must outlive the pipeline.
  static Result<std::unique_ptr<Pipeline>> create(Graph graph, DeviceMemory& memory,
                                                  const Options& options);

  /// Cancels and joins; blocks until stages that are running return. All leases must be released.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] std::size_t slots() const { return buffers_.slots(); }

  /// Leases the inputs of the next frame. Blocks until a slot is free; kDeadline when none was,
  /// kClosed after stop(), kCancelled, or the stage's error. One such lease exists at a time.
  Result<InputFrame> acquire(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Sends a filled frame on its way and returns its number. Does not block.
  Result<std::uint64_t> submit(InputFrame frame) EDGEPIPE_EXCLUDES(mutex_);

  /// acquire, copy one span per input, submit. kInvalidArgument when a number of bytes differs.
  Result<std::uint64_t> submit(std::span<const std::span<const std::byte>> inputs,
                               Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Leases the next finished frame, in the order of submission. Blocks until there is one;
  /// kDeadline (naming the stage that holds it up), kClosed after the last frame of a stopped
  /// pipeline, kCancelled, or the stage's error.
  Result<OutputFrame> next(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Blocks until every submitted frame is finished (not: taken); the pipeline goes on running.
  /// kDeadline, kCancelled, or the stage's error.
  Status drain(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Accepts no more frames and blocks until all submitted ones are finished (not: taken). Returns
  /// the stage's error if there was one; after kDeadline it may be called again.
  Status stop(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  /// Drops every frame not delivered yet. Does not block; a running stage ends its current frame.
  void cancel() EDGEPIPE_EXCLUDES(mutex_);

  /// Runs again as if newly created: frames count from 0, results that were not taken are dropped.
  /// Blocks until the threads have ended; kDeadline if they have not, kInvalidArgument while the
  /// pipeline is running or a lease is out. Nobody else uses the pipeline meanwhile.
  Status restart(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] PipelineStatistics statistics() const EDGEPIPE_EXCLUDES(mutex_);

  /// The last Options::trace_spans spans. Copies them, which holds up the stages for about a
  /// millisecond: best called after the run.
  [[nodiscard]] PipelineTrace trace() const EDGEPIPE_EXCLUDES(mutex_);

 private:
  friend class InputFrame;
  friend class OutputFrame;

  // What other threads may read without the mutex. `published` runs ahead of `finished` by the time
  // that it takes to get the mutex. Alone in its cache line, so that polling slows nobody down.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> published{0};
    std::atomic<bool> running{false};
  };
  struct StageState {
    std::vector<std::size_t> consumers;  // workers to wake when this stage has finished a frame
    std::uint64_t finished = 0;          // frames 0..finished-1 are done
    Histogram busy;
    std::uint64_t retries = 0;          // frames that were run once more
    std::uint64_t fallback_frames = 0;  // frames that the fallback ran
    std::string fault;                  // the latest
    bool fallen_back = false;
  };
  struct SlotState {
    bool in_use = false;      // from acquire until its OutputFrame is released
    std::uint64_t frame = 0;  // that was submitted in it last
    Clock::time_point acquired;
    Clock::time_point submitted;
    Clock::time_point taken;
    std::chrono::nanoseconds latency{};
  };
  struct Worker {
    std::vector<std::size_t> stages;  // run in this order on each frame
    std::vector<int> cores;
    CondVar wake;
    std::optional<Thread> thread;
  };
  struct Failure {
    std::uint64_t frame;
    std::size_t stage;
    Status status;
  };

  Pipeline(Graph graph, SlotBuffers buffers, const Options& options);

  Status bind_stages();
  Status start_workers();
  std::string worker_name(const Worker& worker) const;
  void work(Worker& worker) EDGEPIPE_EXCLUDES(mutex_);
  bool poll(std::size_t stage, std::uint64_t frame) const;
  Status run_stage(std::size_t stage, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);
  bool has_fallen_back(std::size_t stage) const EDGEPIPE_EXCLUDES(mutex_);
  Status run_fallback(std::size_t stage, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);
  void note_fault(std::size_t stage, std::uint64_t frame, const Status& status, const char* remedy)
      EDGEPIPE_EXCLUDES(mutex_);
  std::string place(std::size_t stage, std::uint64_t frame) const;
  bool wait_until_ready(Worker& worker, std::size_t stage, std::uint64_t frame)
      EDGEPIPE_EXCLUDES(mutex_);
  void finish(std::size_t stage, std::uint64_t frame, const Status& status,
              Clock::time_point started) EDGEPIPE_EXCLUDES(mutex_);

  bool ready(std::size_t stage, std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  [[nodiscard]] std::size_t slot_of(std::uint64_t frame) const {
    return static_cast<std::size_t>(frame % buffers_.slots());
  }
  void lower_limit(std::uint64_t limit) EDGEPIPE_REQUIRES(mutex_);
  Status end_status() const EDGEPIPE_REQUIRES(mutex_);
  std::string holder(std::uint64_t frame) const EDGEPIPE_REQUIRES(mutex_);
  void release(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  void release_input(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  void release_output(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  std::uint64_t waiting(std::size_t stage) const EDGEPIPE_REQUIRES(mutex_);

  Graph graph_;
  SlotBuffers buffers_;
  const Options options_;
  std::deque<Worker> workers_;  // a deque, because a Worker cannot move

  // For each stage those that must have finished a frame before it; never changes.
  std::vector<std::vector<std::size_t>> producers_;
  std::vector<Progress> progress_;
  // Frames 0..runnable_-1 are submitted and below the limit; written with the mutex held.
  alignas(64) std::atomic<std::uint64_t> runnable_{0};

  mutable Mutex mutex_;  // guards counters only; never held while a stage runs
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
  bool filling_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // an InputFrame is out
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
