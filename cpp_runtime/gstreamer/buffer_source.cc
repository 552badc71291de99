#include "buffer_source.h"

#include <cstddef>
#include <span>
#include <utility>

namespace edgepipe::gstreamer {
namespace {

/// A buffer that is mapped for reading until the first stage has read it, on its own thread.
class MappedBuffer final : public PictureOwner {
 public:
  MappedBuffer() = default;
  ~MappedBuffer() override {
    if (mapped_) gst_video_frame_unmap(&frame_);
  }

  bool map(GstBuffer* buffer, const GstVideoInfo& info) {
    mapped_ = gst_video_frame_map(&frame_, &info, buffer, GST_MAP_READ) != FALSE;
    return mapped_;
  }

  [[nodiscard]] Picture picture() const {
    const int height = GST_VIDEO_FRAME_HEIGHT(&frame_);
    const int width = GST_VIDEO_FRAME_WIDTH(&frame_);
    const PixelFormat format = pixel_format(GST_VIDEO_FRAME_FORMAT(&frame_));
    const auto row_bytes = static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame_, 0));
    const auto* const pixels =
        static_cast<const std::byte*>(GST_VIDEO_FRAME_PLANE_DATA(&frame_, 0));
    // The last row may end without padding.
    const std::size_t bytes =
        row_bytes * static_cast<std::size_t>(height - 1) + packed_row_bytes(format, width);
    return {.format = format,
            .width = width,
            .height = height,
            .row_bytes = row_bytes,
            .bytes = std::span(pixels, bytes)};
  }

  void give_back(std::size_t /*buffer*/) override {
    if (std::exchange(mapped_, false)) gst_video_frame_unmap(&frame_);
  }

 private:
  GstVideoFrame frame_ = {};
  bool mapped_ = false;
};

}  // namespace

PixelFormat pixel_format(GstVideoFormat format) {
  return format == GST_VIDEO_FORMAT_RGB   ? PixelFormat::kRgb
         : format == GST_VIDEO_FORMAT_BGR ? PixelFormat::kBgr
                                          : PixelFormat::kGray;
}

Status BufferSource::offer(GstBuffer* buffer, const GstVideoInfo& info) {
  auto mapped = std::make_shared<MappedBuffer>();
  if (!mapped->map(buffer, info)) {
    return Status(Code::kDevice,
                  name_ + ": found a buffer of " + std::to_string(gst_buffer_get_size(buffer)) +
                      " bytes that cannot be read, expected a picture of " +
                      std::to_string(GST_VIDEO_INFO_SIZE(&info)) + " bytes in system memory",
                  "put videoconvert before this element, which copies pictures of other memory");
  }
  const Picture picture = mapped->picture();
  offered_ = PictureLease(picture, std::move(mapped), 0);
  return {};
}

Result<bool> BufferSource::next(PictureLease& lease, const std::atomic<bool>& stop) {
  if (stop || !offered_.held()) return false;
  lease = std::move(offered_);
  ++taken_;
  return true;
}

SourceCounters BufferSource::counters() const {
  const std::uint64_t taken = taken_;
  return {.captured = taken, .taken = taken, .steps = taken};
}

}  // namespace edgepipe::gstreamer
