#include "media/sinks/video_stream.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/out_of_memory.h"
#include "base/seconds_text.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kNiceness = 10;  // of the stream's thread and of ffmpeg, below the pipeline
constexpr seconds kLongestBackoff{15};
constexpr seconds kSilence{10};  // without a frame that arrives; ffmpeg is then started again
constexpr seconds kCaughtUp{1};  // ticks that are late by less are sent all the same

/// The nearest even number below, but at least 16, which every decoder takes.
int even(int pixels) { return std::max(16, pixels / 2 * 2); }

}  // namespace

VideoStream::VideoStream(Options options, StreamDestination destination, ClassNames names)
    : options_(std::move(options)),
      destination_(std::move(destination)),
      names_(std::move(names)) {}

Result<std::unique_ptr<VideoStream>> VideoStream::start(Options options, ClassNames names) {
  Result<StreamDestination> destination = StreamDestination::parse(options.destination);
  if (!destination.ok()) return destination.status();
  if (Status status = destination->prepare(); !status.ok()) return status;
  if (Status status = StreamEncoder::check(*destination); !status.ok()) return status;
  std::unique_ptr<VideoStream> stream(
      new VideoStream(std::move(options), *std::move(destination), std::move(names)));
  Result<Thread> thread =
      Thread::start({.name = "stream", .cores = {}}, [raw = stream.get()] { raw->work(); });
  if (!thread.ok()) return thread.status();
  stream->thread_.emplace(std::move(*thread));
  return stream;
}

void VideoStream::finish() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify();
  }
  if (thread_) thread_->join();
}

void VideoStream::offer(const Picture& picture, const FrameResult& result, int result_width,
                        int result_height) {
  MutexLock lock(mutex_);
  newest_.pixels.assign(picture.bytes.begin(), picture.bytes.end());
  newest_.picture = picture;
  newest_.picture.bytes = newest_.pixels;
  newest_.result.hold(result);
  newest_.result_width = result_width;
  newest_.result_height = result_height;
  newest_.is_new = true;
  if (first_.width == 0)
    first_ = {.format = picture.format, .width = picture.width, .height = picture.height};
}

StreamCounters VideoStream::counters() const {
  MutexLock lock(mutex_);
  StreamCounters counters = counters_;
  if (out_since_) {
    const auto past = std::chrono::duration_cast<milliseconds>(Clock::now() - *out_since_);
    counters.outage = std::max(past, milliseconds(1));
  }
  return counters;
}

/// The body of the stream's thread.
void VideoStream::work() {
  // On Linux, this is the niceness of the calling thread only. ffmpeg inherits it.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceness));
  const auto period = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(1 / options_.frames_per_second));
  Clock::time_point due = Clock::now();
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!ending_ && Clock::now() < due) changed_.wait_until(lock, due);
      if (ending_) break;
    }
    const Status status = or_out_of_memory([this] {
      tick();
      return Status();
    });
    due += period;
    std::uint64_t missed = status.ok() ? 0 : 1;
    const Clock::duration late = Clock::now() - due;
    if (late > kCaughtUp) {
      const auto ticks = late / period;
      due += ticks * period;
      missed += static_cast<std::uint64_t>(ticks);
    }
    if (missed == 0 || frame_.empty()) continue;
    MutexLock lock(mutex_);
    counters_.dropped += missed;
  }
  if (encoder_) static_cast<void>(encoder_->finish().ok());  // there is no one to tell any more
  encoder_.reset();
}

/// Sends one frame.
void VideoStream::tick() {
  if (Status status = take_newest(); !status.ok()) return failed(status);
  if (frame_.empty()) return;
  if (!encoder_ && Clock::now() >= retry_) connect();
  if (encoder_) return send();
  MutexLock lock(mutex_);
  ++counters_.dropped;
}

/// Makes the newest frame the one that is sent. Without a new one, it stays.
Status VideoStream::take_newest() {
  Picture first;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(newest_.is_new, false)) return {};
    std::swap(taken_, newest_);
    first = first_;
  }
  taken_.picture.bytes = taken_.pixels;
  if (!fitter_) {
    if (Status status = choose_shape(first); !status.ok()) return status;
  }
  std::vector<std::byte> frame(3 * static_cast<std::size_t>(shape_.width) *
                               static_cast<std::size_t>(shape_.height));
  if (Status status = fitter_->fit(taken_.picture, frame); !status.ok()) return status;
  Placement placement = fitter_->placement();
  placement.width = taken_.result_width;
  placement.height = taken_.result_height;
  annotate({.pixels = reinterpret_cast<std::uint8_t*>(frame.data()),
            .width = shape_.width,
            .height = shape_.height,
            .row_bytes = std::ptrdiff_t{3} * shape_.width,
            .pixel_bytes = 3,
            .channels = {0, 1, 2}},
           taken_.result.view(), placement, names_);
  frame_ = std::move(frame);
  return {};
}

/// The stream's size, which stays: later pictures of other sizes are fitted into it.
Status VideoStream::choose_shape(const Picture& first) {
  shape_ = {.width = options_.width,
            .height = options_.height,
            .frames_per_second = options_.frames_per_second,
            .kilobits_per_second = options_.kilobits_per_second};
  if (shape_.width == 0) {
    shape_.width = even(first.width);
    shape_.height = even(first.height);
  }
  Result<PictureFitter> fitter = PictureFitter::create({.width = shape_.width,
                                                        .height = shape_.height,
                                                        .order = "RGB",
                                                        .fit = "letterbox",
                                                        .resize_short_side = 0,
                                                        .padding = 0,
                                                        .align = "center"});
  if (!fitter.ok()) return fitter.status();
  fitter_.emplace(*std::move(fitter));
  return {};
}

void VideoStream::connect() {
  if (Status status = destination_.prepare(); !status.ok()) return failed(status);
  Result<std::unique_ptr<StreamEncoder>> encoder = StreamEncoder::start(destination_, shape_);
  if (!encoder.ok()) return failed(encoder.status());
  encoder_ = *std::move(encoder);
  alive_ = Clock::now();
}

void VideoStream::send() {
  const Result<bool> written = encoder_->write(frame_, ending_);
  if (!written.ok()) return failed(written.status());
  if (!*written) return;
  {
    MutexLock lock(mutex_);
    ++counters_.sent;
  }
  const Clock::time_point now = Clock::now();
  if (encoder_->delivers()) {
    alive_ = now;
    delivered();
  } else if (now - alive_ >= kSilence) {
    failed(Status(Code::kDeadline,
                  "stream to " + destination_.name() + ": nothing has arrived there for " +
                      seconds_text(kSilence),
                  "check the folder and its free space, or that the server answers"));
  }
}

/// Begins an outage or continues it.
void VideoStream::failed(const Status& status) {
  encoder_.reset();
  retry_ = Clock::now() + backoff_;
  backoff_ = std::min(2 * backoff_, kLongestBackoff);
  {
    MutexLock lock(mutex_);
    ++counters_.dropped;
    const bool begins = !out_since_;
    if (begins) out_since_ = Clock::now();
    const std::string before = std::exchange(counters_.fault, status.message());
    if (!begins && before == status.message()) return;
  }
  if (!options_.on_fault) return;
  const std::string hint = status.hint().empty() ? "" : " (" + status.hint() + ")";
  options_.on_fault(status.message() + hint + "; tries again");
}

void VideoStream::delivered() {
  backoff_ = seconds(1);
  milliseconds ended{0};
  {
    MutexLock lock(mutex_);
    if (!out_since_) return;
    ended = std::chrono::duration_cast<milliseconds>(Clock::now() - *out_since_);
    out_since_.reset();
    ++counters_.reconnects;
  }
  if (options_.on_fault) {
    options_.on_fault("stream to " + destination_.name() + ": works again, after " +
                      seconds_text(ended));
  }
}

}  // namespace edgepipe
