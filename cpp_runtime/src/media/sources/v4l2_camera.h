// V4l2Camera: the newest picture of a V4L2 device, which may fall silent or be unplugged.
//
//   Result<std::unique_ptr<PictureSource>> camera = V4l2Camera::open({.path = "/dev/video0"});
//   Result<bool> more = (*camera)->next(lease, stop);  // its bytes are the driver's buffer
//
//            open             unplugged or silent        opened again (tried twice a second)
//   (none) --------> [ streaming ] --------> [ waiting ] --------> [ streaming ] ...
//
// A separate thread takes every picture from the driver immediately and keeps the newest. A slow
// reader gets the newest picture, and the older ones are counted as dropped. While waiting, next()
// blocks until `stop` is set, or until the policy gives up. A lent picture stays valid even when
// the device is gone. Silence counts only while the driver has a buffer to fill.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/thread.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/sync.h"
#include "media/sources/newest_picture.h"
#include "media/sources/outage.h"
#include "media/sources/v4l2_stream.h"

namespace edgepipe {

class V4l2Camera final : public PictureSource {
 public:
  struct Options {
    std::string path;
    V4l2Stream::Options stream;
    int reconnect_ms = 500;  // between two attempts to open it again
    SilencePolicy silence;
  };

  /// The device must exist now. `calls` must outlive the camera.
  static Result<std::unique_ptr<PictureSource>> open(const Options& options,
                                                     V4l2Calls& calls = V4l2Calls::kernel());
  ~V4l2Camera() override;

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    return newest_.take(lease, outage_, stop);
  }
  [[nodiscard]] SourceCounters counters() const override;
  [[nodiscard]] std::string fault() const override { return outage_.fault(); }
  [[nodiscard]] bool live() const override { return true; }
  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return options_.path + "#" + std::to_string(number);
  }
  [[nodiscard]] std::string description() const override { return description_; }

 private:
  V4l2Camera(const Options& options, std::shared_ptr<V4l2Stream> stream, V4l2Calls& calls);
  void capture();
  void capture_one();
  void reconnect();
  void disconnect();
  void keep(const V4l2Stream::Capture& capture);

  Options options_;
  V4l2Calls& calls_;
  std::string description_;
  Outage outage_;
  std::shared_ptr<V4l2Stream> stream_;     // of the capturing thread; null while waiting
  std::optional<std::uint32_t> sequence_;  // the same; of the last picture
  Clock::time_point due_{};                // the same; of the next attempt to open it

  NewestPicture newest_;
  std::atomic<bool> ending_{false};
  std::optional<Thread> thread_;
};

}  // namespace edgepipe
