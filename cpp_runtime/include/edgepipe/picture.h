// Picture and PictureLease: a picture as a camera or a file delivers it, in its owner's memory.
//
//   const Picture picture{.format = PixelFormat::kYuyv, .width = 640, .height = 480,
//                         .row_bytes = 1280, .bytes = buffer};
//   Status status = check(picture);
//
//   PictureLease lease;
//   Result<bool> more = source.next(lease, stop);  // e.g. in the camera driver's buffer
//   fitter.fit(lease.picture(), frame);
//   lease.release();                               // the driver may fill the buffer again
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

enum class PixelFormat {
  kRgb,   // three bytes per pixel
  kBgr,   // the same
  kGray,  // one byte per pixel
  kYuyv,  // Y0 U Y1 V for two pixels; BT.601, Y in 16..235
  kNv12,  // a plane of Y, then one of U V for 2x2 pixels, with rows of the same length
  kJpeg,  // compressed; row_bytes is unused
  kPng,   // the same; from files only
  kBmp,   // a whole file, too; its kinds are those of media/pictures/bitmap.h
};

/// Borrowed: the bytes belong to the source.
struct Picture {
  PixelFormat format = PixelFormat::kRgb;
  int width = 0;              // pixels
  int height = 0;             // pixels
  std::size_t row_bytes = 0;  // from the start of one row to the start of the next
  std::span<const std::byte> bytes = {};
  int dma_buf = -1;  // the same memory as a dma-buf, borrowed; -1 if the driver exports none
};

/// "rgb", "bgr", "gray", "yuyv", "nv12", "jpeg", "png" or "bmp".
std::string_view name_of(PixelFormat format);

/// The format of that name; none for an unknown one, kPng and kBmp.
std::optional<PixelFormat> parse_pixel_format(std::string_view name);

/// The bytes of a row without padding; 0 for a whole file.
std::size_t packed_row_bytes(PixelFormat format, int width);

/// The bytes of a whole picture without padding; 0 for a whole file.
std::size_t packed_bytes(PixelFormat format, int width, int height);

/// The usual limit of a picture's size, enough for 8K (7680x4320): 96 MiB as kRgb.
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 25;

/// kCorrupt unless the sides are 1..16384 and the picture has at most `most_pixels`. For untrusted
/// sizes, before memory of that size is allocated.
Status check_size(int width, int height, std::uint64_t most_pixels);

/// kInvalidArgument unless the sides are 1..16384 (and even if the format shares colours between
/// pixels), rows do not overlap and `bytes` contains all of them.
Status check(const Picture& picture);

/// The owner of a picture's memory. Must outlive all leases on it.
class PictureOwner {
 public:
  PictureOwner() = default;
  PictureOwner(const PictureOwner&) = delete;
  PictureOwner& operator=(const PictureOwner&) = delete;
  virtual ~PictureOwner() = default;

  /// Takes a buffer back. Any thread may call it; does not block.
  virtual void give_back(std::size_t buffer) = 0;
};

/// A picture in its owner's memory, which is returned when the lease ends. Movable, not copyable;
/// belongs to one thread at a time. Allocates nothing.
class PictureLease {
 public:
  PictureLease() = default;
  PictureLease(const Picture& picture, std::shared_ptr<PictureOwner> owner, std::size_t buffer)
      : picture_(picture), owner_(std::move(owner)), buffer_(buffer) {}
  PictureLease(PictureLease&& other) noexcept = default;
  PictureLease& operator=(PictureLease&& other) noexcept {
    std::swap(picture_, other.picture_);
    std::swap(owner_, other.owner_);
    std::swap(buffer_, other.buffer_);
    other.release();
    return *this;
  }
  ~PictureLease() { release(); }

  [[nodiscard]] bool held() const { return owner_ != nullptr; }

  /// The picture; its bytes are valid until the lease ends.
  [[nodiscard]] const Picture& picture() const { return picture_; }

  /// Returns the memory. No effect on an empty lease.
  void release() {
    if (const std::shared_ptr<PictureOwner> owner = std::move(owner_)) owner->give_back(buffer_);
  }

 private:
  Picture picture_;
  std::shared_ptr<PictureOwner> owner_;
  std::size_t buffer_ = 0;
};

}  // namespace edgepipe
