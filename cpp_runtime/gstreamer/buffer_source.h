// BufferSource: the buffers that arrive at an element, as the pictures of a pipeline.
//
//   auto* source = new BufferSource(slots, "edgepipe0");
//   pictures.connect(std::unique_ptr<PictureSource>(source));
//   Status status = source->offer(buffer, info);  // mapped until the first stage has read it
//   pictures.lend(frame, stop);                   // takes the offered picture
//
// Nothing is copied: the first stage reads the memory that the buffer has, with its strides.
#pragma once

#include <gst/video/video.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "edgepipe/picture_source.h"
#include "edgepipe/status.h"

namespace edgepipe::gstreamer {

/// The format of pictures in that of GStreamer. Requires one of the pads' formats.
PixelFormat pixel_format(GstVideoFormat format);

class BufferSource final : public PictureSource {
 public:
  /// `name` is that of the element, for errors.
  explicit BufferSource(std::string name) : name_(std::move(name)) {}

  /// Maps the buffer, which stays referenced meanwhile, for the next call of next(). kDevice if it
  /// cannot be read. Only the thread that calls next().
  Status offer(GstBuffer* buffer, const GstVideoInfo& info);

  /// False without an offered picture. Does not block.
  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override;

  [[nodiscard]] SourceCounters counters() const override;
  [[nodiscard]] std::string description() const override { return name_; }

 private:
  std::string name_;
  PictureLease offered_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace edgepipe::gstreamer
