#include "media/sources/v4l2_camera.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"
#include "media/sources/stop_interval.h"

namespace edgepipe {

Result<std::unique_ptr<PictureSource>> V4l2Camera::open(const Options& options, V4l2Calls& calls) {
  Result<std::shared_ptr<V4l2Stream>> stream =
      V4l2Stream::open(options.path, options.stream, calls);
  if (!stream.ok()) return stream.status();
  std::unique_ptr<V4l2Camera> camera(new V4l2Camera(options, std::move(*stream), calls));
  Result<Thread> thread =
      Thread::start({.name = "camera", .cores = {}}, [raw = camera.get()] { raw->capture(); });
  if (!thread.ok()) return thread.status();
  camera->thread_.emplace(std::move(*thread));
  return std::unique_ptr<PictureSource>(std::move(camera));
}

V4l2Camera::V4l2Camera(const Options& options, std::shared_ptr<V4l2Stream> stream, V4l2Calls& calls)
    : options_(options),
      calls_(calls),
      description_(options.path + ", " + stream->description()),
      outage_(options.path, options.silence),
      stream_(std::move(stream)) {}

V4l2Camera::~V4l2Camera() {
  ending_ = true;
  if (thread_) thread_->join();
}

/// The body of the capturing thread. A failed allocation loses a picture or delays the next one.
void V4l2Camera::capture() {
  while (!ending_) {
    const Status status = or_out_of_memory([this] {
      stream_ ? capture_one() : reconnect();
      return Status();
    });
    if (!status.ok()) std::this_thread::sleep_for(kStopInterval);
  }
}

void V4l2Camera::capture_one() {
  Result<V4l2Stream::Capture> capture = or_out_of_memory(
      [this] { return stream_->dequeue(static_cast<int>(kStopInterval.count())); });
  const bool good = capture.ok() && !capture->damaged;
  if (good) outage_.delivered();
  if (capture.ok()) keep(*capture);
  if (good) return;
  if (!capture.ok() && capture.status().code() != Code::kDeadline) {
    disconnect();
    outage_.failed(capture.status().message());
  } else if (!stream_->can_fill()) {
    outage_.excused();
  } else if (outage_.silent()) {
    disconnect();
    outage_.failed_silently();
  } else {
    outage_.waiting();
  }
}

/// Closes the device. A driver streams to one opener at a time, and a lease keeps the stream open,
/// so the newest picture is dropped, too; the reader's pictures are returned once they have been
/// read.
void V4l2Camera::disconnect() {
  stream_.reset();
  sequence_.reset();
  newest_.drop();
}

void V4l2Camera::reconnect() {
  while (!ending_ && Clock::now() < due_) {
    std::this_thread::sleep_until(std::min(due_, Clock::now() + kStopInterval));
  }
  if (ending_) return;
  due_ = Clock::now() + std::chrono::milliseconds(options_.reconnect_ms);
  Result<std::shared_ptr<V4l2Stream>> stream =
      or_out_of_memory([this] { return V4l2Stream::open(options_.path, options_.stream, calls_); });
  if (stream.ok()) stream_ = std::move(*stream);
  outage_.attempted(stream.ok());
}

/// Makes a picture the newest one and immediately returns the previous one to the driver, unread.
void V4l2Camera::keep(const V4l2Stream::Capture& capture) {
  const std::uint32_t gap = sequence_ ? capture.sequence - *sequence_ - 1 : 0;
  sequence_ = capture.sequence;
  newest_.missed(gap + (capture.damaged ? 1 : 0));
  PictureLease picture(stream_->picture(capture.buffer), stream_, capture.buffer);
  if (!capture.damaged) newest_.keep(std::move(picture));
}

SourceCounters V4l2Camera::counters() const {
  SourceCounters counters = newest_.counters();
  outage_.count_in(counters);
  return counters;
}

}  // namespace edgepipe
