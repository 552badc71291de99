// Pipeline: runs the stages of a graph on frames, each stage on its own pinned thread, or many
// stages on the few threads of a crew.
//
//   Result<std::unique_ptr<Pipeline>> made = Pipeline::create(std::move(graph), memory, {});
//   Pipeline& pipeline = **made;
//   pipeline.submit(pictures, Clock::now() + 1s);              // blocks while all slots are in use
//   Result<OutputFrame> frame = pipeline.next(Clock::now() + 1s);  // in the order of submission
//   use(frame->output(0));
//   pipeline.stop(Clock::now() + 5s);
//
// A ring of slots holds one buffer per tensor of the graph, so a handover between stages moves a
// counter, never data. Stage k runs frame f once every stage it reads from has finished f.
//
//            create                 stop             last frame finished
//    (none) --------> [ running ] -------> [ draining ] -------> [ stopped ]
//                        |   |                |     |                |
//      a stage's error   |   '----------------|-----'----------------'---> [ cancelled ]
//      at frame n        '---------> [ failed ]         cancel
//
// running    frames are accepted, run and delivered.
// draining   no frame is accepted; submitted frames are finished and delivered.
// stopped    the threads have ended; finished frames can still be taken, then next() is kClosed.
// failed     frames before n are finished and delivered, then next() returns the error, which names
//            stage and frame; n counts as failed, later frames are dropped.
// cancelled  undelivered frames are dropped; next() is kCancelled.
//
// A stage that misses its deadline and is repeatable (stage.h) runs the frame once more. If that
// fails too, if it happens too often (FaultPolicy), or if its device fails, the node's fallback
// runs this frame and the later ones, until the device passes trials; without one the error is the
// stage's. statistics() counts what happened.
//
// restart() returns from stopped, failed and cancelled to running, with the same stages.
//
// Threads: one thread submits and one takes results, possibly the same one; statistics(), stop()
// and cancel() are for any thread. After create() nothing here allocates unless it returns an
// error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/frame.h"
#include "edgepipe/graph.h"
#include "edgepipe/memory.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class Pipeline {
 public:
  enum class Mode {
    kPipelined,  // one thread per stage: several frames at once
    kSerial,  // one thread runs all stages of a frame, each with its own core team, then the next
  };
  enum class Pinning {
    kRequired,   // create() fails if a thread cannot be pinned
    kPreferred,  // such a thread runs unpinned, as statistics() shows
    kOff,        // no thread is pinned
  };
  /// The cores and priority of a stage's thread.
  struct StageThread {
    std::vector<int> cores;     // that it may run on; empty: any
    int realtime_priority = 0;  // 1-99: SCHED_FIFO (needs CAP_SYS_NICE); 0: the normal scheduler
    // With more than one, the kernels of an ARM stage share their loops among that many threads,
    // the k-th on the k-th of `cores`. Other stages ignore it.
    std::size_t threads = 1;
  };
  /// Threads that share stages: each runs whichever of them has the oldest frame to run. A stage
  /// runs its frames in order and one at a time, but not always on the same thread. For a graph
  /// with more stages than cores, one crew for each kind of unit.
  struct Crew {
    std::string name;
    std::vector<std::size_t> stages;   // indices into Graph::nodes
    std::vector<StageThread> threads;  // their own `threads` are ignored
  };
  /// Memory of the caller's for an input or output in one slot, in place of memory that the
  /// pipeline allocates: frame f uses slot f modulo slots(). 64-byte aligned, of the tensor's size.
  /// It outlives the pipeline, and only the stages write it while they run the frame. Only for
  /// tensors that no accelerator touches.
  struct OwnBuffer {
    std::string tensor;
    std::size_t slot = 0;
    std::span<std::byte> memory;
  };
  struct Options {
    Mode mode = Mode::kPipelined;
    std::size_t slots = 0;  // frames in the ring; 0: one per stage and two for the caller
    Pinning pinning = Pinning::kRequired;
    // Stage k uses threads[k % n]. Empty: each stage gets one of the process's cores.
    std::vector<StageThread> threads;
    // If not empty, these threads run the stages in place of `threads`, except in serial mode.
    // Every stage belongs to one crew. Crews do not poll (`spin`).
    std::vector<Crew> crews;
    // The priority of every stage's thread; overrides `threads`.
    std::optional<int> realtime_priority = std::nullopt;
    // How long a stage's thread polls for its next frame before it sleeps. Polling occupies the
    // core all the time, but a handover then takes a fraction of a microsecond instead of a
    // wake-up.
    std::chrono::microseconds spin{0};
    std::size_t trace_spans = 0;  // how many spans trace() can return; 0: no recording
    FaultPolicy faults = {};
    std::vector<OwnBuffer> own_buffers = {};  // one for each slot of a tensor, or none
    // Called on the stage's thread when a device fails, with the failure and the recovery.
    std::function<void(const std::string& what)> on_fault = {};
  };

  /// Allocates the slots from `memory`, binds every stage to them and starts the threads. Takes
  /// ownership of the stages; `memory` must outlive the pipeline. kInvalidArgument if crews leave a
  /// stage out or share one, if a crew has no stage or no thread, or for an own buffer that breaks
  /// a rule above.
  static Result<std::unique_ptr<Pipeline>> create(Graph graph, DeviceMemory& memory,
                                                  const Options& options);

  /// Cancels and joins; blocks until running stages return. All leases must be released.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  [[nodiscard]] const Graph& graph() const;
  [[nodiscard]] std::size_t slots() const;

  /// Leases the inputs of the next frame. Blocks until a slot is free; kDeadline if none was,
  /// kClosed after stop(), kCancelled, or the stage's error. One such lease exists at a time.
  Result<InputFrame> acquire(Clock::time_point deadline);

  /// Submits a filled frame and returns its number. Does not block.
  Result<std::uint64_t> submit(InputFrame frame);

  /// acquire, copy one span per input, submit. kInvalidArgument if a number of bytes differs.
  Result<std::uint64_t> submit(std::span<const std::span<const std::byte>> inputs,
                               Clock::time_point deadline);

  /// Leases the next finished frame, in the order of submission. Blocks until there is one;
  /// kDeadline (which names the stage that it waits for), kClosed after the last frame of a stopped
  /// pipeline, kCancelled, or the stage's error.
  Result<OutputFrame> next(Clock::time_point deadline);

  /// Blocks until every submitted frame is finished (not: taken); the pipeline keeps running.
  /// kDeadline, kCancelled, or the stage's error.
  Status drain(Clock::time_point deadline);
  /// Likewise for the first `frames` frames, however many have been submitted since.
  Status drain(std::uint64_t frames, Clock::time_point deadline);

  // Waits and queries without side effects, for any thread: a caller that gives up loses nothing
  // and can ask again.

  /// How many frames have been submitted since the start.
  [[nodiscard]] std::uint64_t submitted() const;
  /// Whether acquire() would return at once, possibly with an error.
  [[nodiscard]] bool has_slot() const;
  /// Whether next() would.
  [[nodiscard]] bool has_next() const;
  /// Blocks until has_slot(), or, with `or_next`, until a finished frame can be taken; kDeadline.
  Status await_slot(bool or_next, Clock::time_point deadline);
  /// Blocks until frame number `frame` is finished or never will be; kDeadline.
  Status await_frame(std::uint64_t frame, Clock::time_point deadline);
  /// Blocks until the stages' threads have ended after stop(), cancel() or an error; kDeadline
  /// names the running stage.
  Status await_end(Clock::time_point deadline);

  /// Accepts no more frames and blocks until all submitted ones are finished (not: taken). Returns
  /// the stage's error if there was one; after kDeadline it may be called again.
  Status stop(Clock::time_point deadline);

  /// Drops every frame not delivered yet. Does not block; a running stage ends its current frame.
  void cancel();

  /// Runs again as if newly created: frames count from 0, results that were not taken are dropped.
  /// Blocks until the threads have ended; kDeadline if they have not, kInvalidArgument while the
  /// pipeline is running or a lease is out. No other thread may use the pipeline meanwhile.
  Status restart(Clock::time_point deadline);

  [[nodiscard]] PipelineStatistics statistics() const;

  /// The last Options::trace_spans spans. Copying them delays the stages by about a
  /// millisecond, so call it after the run if possible.
  [[nodiscard]] PipelineTrace trace() const;

 private:
  friend class InputFrame;
  friend class OutputFrame;
  class Machinery;  // slots, schedule, threads

  explicit Pipeline(std::unique_ptr<Machinery> machinery);

  std::unique_ptr<Machinery> machinery_;
};

}  // namespace edgepipe
