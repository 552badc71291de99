// run_frames: feeds a pipeline from a separate thread and takes its results on the caller's thread.
//
//   Status status = run_frames(pipeline, {.frames = 100, .fill = fill, .take = take}, stop);
//
// Ends when `fill` has no more frames, after `frames`, on an error, or when `stop` is set. Except
// after an error, all submitted frames are finished and taken first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "edgepipe/frame.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct FrameLoop {
  std::uint64_t frames = UINT64_MAX;  // at most

  /// Fills the next frame's inputs; false if there are no more. Runs on a separate thread and
  /// should return soon after `stop` is set.
  std::function<Result<bool>(const InputFrame& frame)> fill;

  /// Takes a finished frame, in order, on the thread that called run_frames.
  std::function<Status(const OutputFrame& frame)> take;

  /// Optional; called on the same thread, about ten times a second or more often, while frames
  /// complete or none is in flight. Not called while a stage or the accelerator hangs. `taken` is
  /// the number of frames so far.
  std::function<void(std::uint64_t taken)> alive;

  std::chrono::milliseconds deadline{30'000};  // for one frame on its way through the stages
};

/// Blocks until the end as described above. The pipeline is stopped or cancelled afterwards. `stop`
/// may be set from any thread or a signal handler; it is checked ten times a second.
Status run_frames(Pipeline& pipeline, const FrameLoop& loop, std::atomic<bool>& stop);

}  // namespace edgepipe
