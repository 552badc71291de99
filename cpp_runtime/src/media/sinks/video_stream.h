// VideoStream: annotated pictures as a live stream, H.264 by HLS or RTSP.
//
//   Result<std::unique_ptr<VideoStream>> stream = VideoStream::start(options, names);
//   (*stream)->offer(picture, result, width, height);   // for every frame; copies
//
//     offer() --newest--> [ thread: fit, annotate, repeat at a fixed rate ] --pipe--> ffmpeg
//
// The stream has a fixed rate: at each tick, the newest frame is sent, or the last one again, so it
// continues while the camera is away. ffmpeg is started with the first frame. When it or the server
// fails, it is started again, after 1, 2, 4, 8 and then every 15 seconds. Meanwhile, and when it is
// too slow, ticks are dropped and counted. offer() never waits for any of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "edgepipe/picture.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "media/pictures/picture_fitter.h"
#include "media/sinks/annotation.h"
#include "media/sinks/stream_destination.h"
#include "media/sinks/stream_encoder.h"

namespace edgepipe {

struct StreamCounters {
  std::uint64_t sent = 0;               // frames given to ffmpeg, repeated ones too
  std::uint64_t dropped = 0;            // ticks without a frame, as ffmpeg or the server failed
  std::uint64_t reconnects = 0;         // times that it worked again
  std::chrono::milliseconds outage{0};  // since it failed; 0: it works, or has not begun
  std::string fault = {};               // that began the present or last outage; empty: none
};

class VideoStream {
 public:
  struct Options {
    std::string destination;  // see StreamDestination
    double frames_per_second = 15;
    int width = 0;  // pixels, even; 0: the first picture's
    int height = 0;
    int kilobits_per_second = 4000;  // at most

    /// Called when an outage begins and when it ends; on another thread, must not block.
    std::function<void(const std::string& text)> on_fault = {};
  };

  /// Errors as StreamDestination::parse, StreamDestination::prepare and StreamEncoder::check. Does
  /// not wait for a server: one that is away is an outage.
  static Result<std::unique_ptr<VideoStream>> start(Options options, ClassNames names);

  ~VideoStream() { finish(); }
  VideoStream(const VideoStream&) = delete;
  VideoStream& operator=(const VideoStream&) = delete;

  /// Sends a frame at the next tick unless a newer one comes first. The results are in pixels of
  /// a picture of `result_width` x `result_height`, of which `picture` is a scaled copy. Copies;
  /// does not block. One thread at a time.
  void offer(const Picture& picture, const FrameResult& result, int result_width, int result_height)
      EDGEPIPE_EXCLUDES(mutex_);

  /// Ends the stream, and completes the playlist, within six seconds. A second call has no effect.
  void finish() EDGEPIPE_EXCLUDES(mutex_);

  /// For any thread.
  [[nodiscard]] StreamCounters counters() const EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] const std::string& destination() const { return destination_.name(); }

 private:
  /// A frame that waits to be sent.
  struct Waiting {
    Picture picture;  // its bytes are those of `pixels`
    std::vector<std::byte> pixels;
    HeldResult result;
    int result_width = 0;
    int result_height = 0;
    bool is_new = false;
  };

  VideoStream(Options options, StreamDestination destination, ClassNames names);
  void work() EDGEPIPE_EXCLUDES(mutex_);
  void tick() EDGEPIPE_EXCLUDES(mutex_);
  Status take_newest() EDGEPIPE_EXCLUDES(mutex_);
  Status choose_shape(const Picture& first);
  void connect() EDGEPIPE_EXCLUDES(mutex_);
  void send() EDGEPIPE_EXCLUDES(mutex_);
  void failed(const Status& status) EDGEPIPE_EXCLUDES(mutex_);
  void delivered() EDGEPIPE_EXCLUDES(mutex_);

  const Options options_;
  const StreamDestination destination_;
  const ClassNames names_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::atomic<bool> ending_{false};
  Waiting newest_ EDGEPIPE_GUARDED_BY(mutex_);
  Picture first_ EDGEPIPE_GUARDED_BY(mutex_);  // without bytes; its size is the stream's
  StreamCounters counters_ EDGEPIPE_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> out_since_ EDGEPIPE_GUARDED_BY(mutex_);

  // Only the stream's thread uses these.
  Waiting taken_;
  StreamEncoder::Shape shape_;
  std::optional<PictureFitter> fitter_;
  std::vector<std::byte> frame_;  // annotated; empty: there was none yet
  std::unique_ptr<StreamEncoder> encoder_;
  Clock::time_point retry_{};  // the next start of ffmpeg
  std::chrono::seconds backoff_{1};
  Clock::time_point alive_{};  // the last sign that frames reach the destination

  std::optional<Thread> thread_;  // destroyed first
};

}  // namespace edgepipe
