// Picture: one picture as a camera or a file delivers it, borrowed from its source.
//
//   const Picture picture{.format = PixelFormat::kYuyv, .width = 640, .height = 480,
//                         .row_bytes = 1280, .bytes = buffer};
//   Status status = check(picture);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

enum class PixelFormat {
  kRgb,   // three bytes per pixel
  kBgr,   // the same
  kGray,  // one byte per pixel
  kYuyv,  // Y0 U Y1 V for two pixels; BT.601, Y in 16..235
  kNv12,  // a plane of Y, then one of U V for 2x2 pixels, with rows of the same length
  kJpeg,  // compressed; row_bytes is unused
};

struct Picture {
  PixelFormat format = PixelFormat::kRgb;
  int width = 0;              // pixels
  int height = 0;             // pixels
  std::size_t row_bytes = 0;  // from the start of one row to the start of the next
  std::span<const std::byte> bytes = {};
  int dma_buf = -1;  // the same memory as a dma-buf, borrowed; -1 if the driver exports none
};

/// "rgb", "bgr", "gray", "yuyv", "nv12" or "jpeg".
std::string_view name_of(PixelFormat format);

/// The format of that name; none for an unknown one.
std::optional<PixelFormat> parse_pixel_format(std::string_view name);

/// The bytes of a row without padding; 0 for kJpeg.
std::size_t packed_row_bytes(PixelFormat format, int width);

/// The bytes of a whole picture without padding; 0 for kJpeg.
std::size_t packed_bytes(PixelFormat format, int width, int height);

/// kInvalidArgument unless the sides are 1..16384 (and even if the format shares colours between
/// pixels), rows do not overlap and `bytes` contains all of them.
Status check(const Picture& picture);

}  // namespace edgepipe
