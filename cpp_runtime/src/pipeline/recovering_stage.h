// RecoveringStage: runs a stage of a graph and recovers if its device fails.
//
//   RecoveringStage body(1, graph.nodes[1], [](const std::string& what) { ... });
//   Status status = body.run(slot, frame);
//
//            kDeadline, repeatable        fails again, or kDevice
//   [ run ] ----------------------> [ run again ] --------------------------> [ fallback ] for ever
//
// A failing device is not a stage's error yet. A repeatable stage (stage.h) whose run ends with
// kDeadline runs the frame again. If that fails too, or after kDevice, the node's fallback runs
// this frame and all later ones. Without a fallback the frame fails with the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "edgepipe/graph.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

/// "stage 1 'body' at frame 7", for errors.
std::string place_of(std::size_t stage, std::string_view name, std::uint64_t frame);

class RecoveringStage {
 public:
  /// Called on the thread of run() when a device fails, with the failure and the recovery.
  using OnFault = std::function<void(const std::string& what)>;

  struct Record {
    std::uint64_t retries = 0;          // frames that were run again
    std::uint64_t fallback_frames = 0;  // frames that the fallback ran
    std::string fault;                  // the device's last failure; empty: none
  };

  /// `node` is the graph's number `index`; borrowed, and bound before the first run.
  RecoveringStage(std::size_t index, const StageNode& node, OnFault on_fault)
      : index_(index), node_(node), on_fault_(std::move(on_fault)) {}

  /// Runs frame number `frame` in `slot`. Blocks until done; allocates only after a fault. One
  /// thread at a time.
  Status run(std::size_t slot, std::uint64_t frame) EDGEPIPE_EXCLUDES(mutex_);

  /// For any thread.
  [[nodiscard]] Record record() const EDGEPIPE_EXCLUDES(mutex_);

  /// Tries the device again and counts from 0; not while run() runs.
  void reset() EDGEPIPE_EXCLUDES(mutex_);

 private:
  Status run_fallback(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  void note(std::uint64_t frame, const Status& status, const char* remedy)
      EDGEPIPE_EXCLUDES(mutex_);

  const std::size_t index_;
  const StageNode& node_;
  const OnFault on_fault_;
  bool fallen_back_ = false;  // used only by the running thread
  mutable Mutex mutex_;       // not held while a stage runs
  Record record_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe
