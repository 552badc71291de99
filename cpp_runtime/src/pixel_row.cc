#include "pixel_row.h"

#include <algorithm>
#include <cstddef>

namespace edgepipe {
namespace {

struct Rgb {
  int red;
  int green;
  int blue;
};

int to_byte(int value) { return std::clamp(value, 0, 255); }

/// ITU-R BT.601 with Y in 16..235 and U, V in 16..240, coefficients times 256.
Rgb from_yuv(int y, int u, int v) {
  const int luma = 298 * (y - 16) + 128;
  const int blue_difference = u - 128;
  const int red_difference = v - 128;
  return {to_byte((luma + 409 * red_difference) >> 8),
          to_byte((luma - 100 * blue_difference - 208 * red_difference) >> 8),
          to_byte((luma + 516 * blue_difference) >> 8)};
}

/// Calls write(column, rgb) for every pixel of the row.
template <typename Write>
void read_colours(const Picture& picture, int row, const Write& write) {
  const auto* all = reinterpret_cast<const std::uint8_t*>(picture.bytes.data());
  const std::uint8_t* line = all + static_cast<std::size_t>(row) * picture.row_bytes;
  const auto width = static_cast<std::size_t>(picture.width);
  switch (picture.format) {
    case PixelFormat::kRgb:
      for (std::size_t x = 0; x < width; ++x) {
        write(x, Rgb{line[3 * x], line[3 * x + 1], line[3 * x + 2]});
      }
      break;
    case PixelFormat::kBgr:
      for (std::size_t x = 0; x < width; ++x) {
        write(x, Rgb{line[3 * x + 2], line[3 * x + 1], line[3 * x]});
      }
      break;
    case PixelFormat::kGray:
      for (std::size_t x = 0; x < width; ++x) write(x, Rgb{line[x], line[x], line[x]});
      break;
    case PixelFormat::kYuyv:
      for (std::size_t x = 0; x < width; x += 2) {
        const std::uint8_t* pair = line + 2 * x;
        write(x, from_yuv(pair[0], pair[1], pair[3]));
        write(x + 1, from_yuv(pair[2], pair[1], pair[3]));
      }
      break;
    case PixelFormat::kNv12: {
      const auto chroma_row =
          static_cast<std::size_t>(picture.height) + static_cast<std::size_t>(row) / 2;
      const std::uint8_t* chroma = all + chroma_row * picture.row_bytes;
      for (std::size_t x = 0; x < width; x += 2) {
        write(x, from_yuv(line[x], chroma[x], chroma[x + 1]));
        write(x + 1, from_yuv(line[x + 1], chroma[x], chroma[x + 1]));
      }
      break;
    }
    case PixelFormat::kJpeg:
      break;  // excluded by the contract
  }
}

}  // namespace

void unpack_row(const Picture& picture, int row, ChannelOrder order, std::span<std::uint8_t> out) {
  switch (order) {
    case ChannelOrder::kRgb:
      read_colours(picture, row, [&](std::size_t x, Rgb pixel) {
        out[3 * x] = static_cast<std::uint8_t>(pixel.red);
        out[3 * x + 1] = static_cast<std::uint8_t>(pixel.green);
        out[3 * x + 2] = static_cast<std::uint8_t>(pixel.blue);
      });
      break;
    case ChannelOrder::kBgr:
      read_colours(picture, row, [&](std::size_t x, Rgb pixel) {
        out[3 * x] = static_cast<std::uint8_t>(pixel.blue);
        out[3 * x + 1] = static_cast<std::uint8_t>(pixel.green);
        out[3 * x + 2] = static_cast<std::uint8_t>(pixel.red);
      });
      break;
    case ChannelOrder::kGray:
      read_colours(picture, row, [&](std::size_t x, Rgb pixel) {
        const int weighed = 9798 * pixel.red + 19235 * pixel.green + 3735 * pixel.blue;
        out[x] = static_cast<std::uint8_t>((weighed + (1 << 14)) >> 15);
      });
      break;
  }
}

}  // namespace edgepipe
