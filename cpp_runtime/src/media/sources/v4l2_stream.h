// V4l2Stream: an opened V4L2 device that captures into mapped buffers.
//
//   Result<std::shared_ptr<V4l2Stream>> stream = V4l2Stream::open("/dev/video0", {}, calls);
//   Result<V4l2Stream::Capture> capture = (*stream)->dequeue(100);
//   use((*stream)->picture(capture->buffer));
//   (*stream)->give_back(capture->buffer);
//
// Buffers stay mapped for the lifetime of the object, even after the device is gone. The driver
// makes memory visible to the CPU when a buffer is dequeued, so no cache maintenance is needed
// here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"
#include "media/sources/v4l2_calls.h"

namespace edgepipe {

class V4l2Stream final : public PictureOwner {
 public:
  struct Options {
    std::optional<PixelFormat> format;  // empty: the first of yuyv, nv12, rgb, bgr, gray, jpeg
    int width = 640;                    // pixels; the driver chooses the nearest size
    int height = 480;
    // Two for the reader, one for the newest picture, and two for the driver, which always fills
    // one.
    unsigned buffers = 5;
    std::uint64_t most_pixels = kMostPixels;  // that the driver may choose
  };

  struct Capture {
    std::size_t buffer;
    std::uint32_t sequence;  // the driver's number; gaps are pictures without a free buffer
    bool damaged;
  };

  /// Opens, sets the format, maps and queues the buffers and starts. kNotFound if the device does
  /// not exist, kUnsupported if it is not a camera or has none of the formats.
  static Result<std::shared_ptr<V4l2Stream>> open(const std::string& path, const Options& options,
                                                  V4l2Calls& calls);
  ~V4l2Stream() override;

  /// Takes the oldest filled buffer. kDeadline after `timeout_ms`, kDevice if the device is
  /// gone.
  Result<Capture> dequeue(int timeout_ms);

  /// Returns a buffer to the driver; no effect if the device is gone. For any thread.
  void give_back(std::size_t buffer) override;

  /// Whether the driver has a buffer to fill. For any thread.
  [[nodiscard]] bool can_fill() const { return queued_ > 0; }

  /// The picture in the buffer between dequeue and give_back.
  [[nodiscard]] Picture picture(std::size_t buffer) const;

  /// E.g. "yuyv 640x480 from vivid".
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  struct Buffer {
    void* address;
    std::size_t bytes;
    std::size_t used;  // compressed pictures use less
    int dma_buf;       // -1: the driver cannot export it
  };

  static constexpr std::size_t kMostBuffers = 32;  // V4L2's own limit, VIDEO_MAX_FRAME

  V4l2Stream(std::string path, int file, V4l2Calls& calls)
      : path_(std::move(path)), file_(file), calls_(calls) {}
  Status check_device();
  Status set_format(const Options& options);
  Status map_buffers(unsigned count);
  Status start();
  [[nodiscard]] Status failed(const std::string& what) const;

  std::string path_;
  int file_;
  V4l2Calls& calls_;
  std::string description_;
  std::string device_name_;
  Picture shape_;  // without bytes
  std::vector<Buffer> buffers_;
  std::array<std::atomic<bool>, kMostBuffers> is_queued_{};  // whether the driver has the buffer
  std::atomic<std::size_t> queued_{0};                       // how many it has
};

}  // namespace edgepipe
