// RecoveringStage: runs a stage of a graph and recovers if its device fails.
//
//   RecoveringStage body(1, graph.nodes[1], [](const std::string& what) { ... });
//   Status status = body.run(slot, frame);
//
//            kDeadline, repeatable       fails again, kDevice, or too many hangs
//   [ run ] ----------------------> [ run again ] ------------------------> [ fallback ]
//      ^                                                                      |     ^
//      |  several trials equal the fallback          every so many frames     v     |  it fails, or
//      '------------------------------------------------------------------ [ trial ]'  differs
//
// A failing device is not immediately an error of the stage. A repeatable stage (stage.h) whose run
// ends with kDeadline runs the frame again. If that fails too, after kDevice, or if the device hung
// too often in its last runs (FaultPolicy), the node's fallback runs this frame and the later ones.
// Meanwhile the device runs some of the frames too, as trials. If it gives the same bytes as the
// fallback several times in a row, it is used again. Without a fallback the frame fails with the
// error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "edgepipe/graph.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

/// "stage 1 'body' at frame 7", for errors.
std::string place_of(std::size_t stage, std::string_view name, std::uint64_t frame);

/// Which of the last runs hung. Not thread-safe.
class HangHistory {
 public:
  explicit HangHistory(std::size_t runs) : hung_(runs == 0 ? 1 : runs, 0) {}

  void add(bool hung);
  void clear();
  [[nodiscard]] std::size_t hangs() const { return hangs_; }
  [[nodiscard]] std::size_t runs() const { return hung_.size(); }

 private:
  std::vector<std::uint8_t> hung_;  // a ring
  std::size_t next_ = 0;
  std::size_t hangs_ = 0;
};

/// What recovery may use.
struct RecoveryMeans {
  FaultPolicy policy = {};
  // The stage's outputs by slot, and their memory. Without them there are no trials.
  std::vector<std::vector<BufferView>> outputs = {};
  DeviceMemory* memory = nullptr;
};

class RecoveringStage {
 public:
  /// Called on the thread of run() when a device fails, with the failure and the recovery.
  using OnFault = std::function<void(const std::string& what)>;

  struct Record {
    std::uint64_t hangs = 0;                  // runs of the device that missed their deadline
    std::uint64_t retries = 0;                // frames that were run again
    std::uint64_t fallback_frames = 0;        // frames that the fallback ran
    std::chrono::nanoseconds device_wait{0};  // for its turn on the device
    std::chrono::nanoseconds device_run{0};   // in which the device worked
    std::string fault;                        // the device's last failure; empty: none
  };

  /// `node` is the graph's number `index`; borrowed, and bound before the first run.
  RecoveringStage(std::size_t index, const StageNode& node, OnFault on_fault,
                  RecoveryMeans means = {})
      : index_(index),
        node_(node),
        on_fault_(std::move(on_fault)),
        means_(std::move(means)),
        history_(means_.policy.runs) {}

  /// Runs frame number `frame` in `slot`. Blocks until done; allocates only after a fault. One
  /// thread at a time.
  Status run(std::size_t slot, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);

  /// For any thread.
  [[nodiscard]] Record record() const EDGEPIPE_EXCLUDES(mutex_);

  /// Tries the device again and counts from 0; not while run() runs.
  void reset() EDGEPIPE_EXCLUDES(mutex_);

 private:
  Status run_device(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Status run_fallback(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Status run_trial(std::size_t slot, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] bool trial_is_due();
  [[nodiscard]] Status given_up(const Status& last) const;
  void fall_back();
  void note(std::uint64_t frame, const std::string& what, const std::string& remedy)
      EDGEPIPE_EXCLUDES(mutex_);

  const std::size_t index_;
  const StageNode& node_;
  const OnFault on_fault_;
  const RecoveryMeans means_;
  // Used only by the running thread.
  HangHistory history_;
  bool fallen_back_ = false;
  std::size_t trial_interval_ = 0;  // frames
  std::size_t until_trial_ = 0;
  std::size_t passed_ = 0;                     // trials in a row
  std::vector<std::vector<std::byte>> trial_;  // the device's outputs of a trial

  mutable Mutex mutex_;  // not held while a stage runs
  Record record_ EDGEPIPE_GUARDED_BY(mutex_);
  std::chrono::nanoseconds earlier_wait_ EDGEPIPE_GUARDED_BY(mutex_){0};  // before reset()
  std::chrono::nanoseconds earlier_run_ EDGEPIPE_GUARDED_BY(mutex_){0};   // before reset()
};

}  // namespace edgepipe
