#include "pipeline/frame_loop.h"

#include <utility>

#include "base/out_of_memory.h"
#include "base/thread.h"

namespace edgepipe {
namespace {

constexpr std::chrono::milliseconds kPatience{100};

/// Runs on the feeding thread. Returns the source's error; the pipeline stores its own errors.
Status feed(Pipeline& pipeline, const FrameLoop& loop, const std::atomic<bool>& stop) {
  for (std::uint64_t sent = 0; sent < loop.frames && !stop;) {
    Result<InputFrame> frame = pipeline.acquire(Clock::now() + kPatience);
    if (!frame.ok()) {
      if (frame.status().code() == Code::kDeadline) continue;  // the ring is full; see `stop`
      return {};  // the pipeline has failed or was cancelled; its own status has the reason
    }
    Result<bool> filled = loop.fill(*frame);
    if (!filled.ok()) return filled.status();
    if (!*filled) break;
    Result<std::uint64_t> id = pipeline.submit(std::move(*frame));
    if (!id.ok()) return {};
    ++sent;
  }
  return {};
}

Status take_all(Pipeline& pipeline, const FrameLoop& loop) {
  Clock::time_point progress = Clock::now();
  std::uint64_t taken = 0;
  for (;;) {
    Result<OutputFrame> frame = pipeline.next(Clock::now() + kPatience);
    if (frame.ok()) {
      if (Status status = loop.take(*frame); !status.ok()) return status;
      ++taken;
      if (loop.alive) loop.alive(taken);
      progress = Clock::now();
      continue;
    }
    Status status = frame.status();
    if (status.code() == Code::kClosed) return {};
    if (status.code() != Code::kDeadline) return status;
    if (pipeline.statistics().in_flight == 0) {
      if (loop.alive) loop.alive(taken);
      progress = Clock::now();
    }
    if (Clock::now() - progress > loop.deadline) return status;
  }
}

}  // namespace

Status run_frames(Pipeline& pipeline, const FrameLoop& loop, std::atomic<bool>& stop) {
  Status fed;
  Result<Thread> feeder = Thread::start({.name = "frame source", .cores = {}}, [&] {
    fed = or_out_of_memory([&] { return feed(pipeline, loop, stop); });
    // Only closes the input, which needs no memory; the frames are taken below.
    static_cast<void>(or_out_of_memory([&] { return pipeline.stop(Clock::now()); }));
  });
  if (!feeder.ok()) {
    pipeline.cancel();
    return feeder.status();
  }
  const Status taken = or_out_of_memory([&] { return take_all(pipeline, loop); });
  if (!taken.ok()) pipeline.cancel();
  // The feeder may be blocked in `fill`; a failed run does not wait for its next frame.
  if (!taken.ok()) stop = true;
  feeder->join();
  return fed.ok() ? taken : fed;
}

}  // namespace edgepipe
