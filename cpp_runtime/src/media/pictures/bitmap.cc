#include "media/pictures/bitmap.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>

#include "media/pictures/pixel_row.h"

namespace edgepipe {
namespace {

constexpr std::size_t kFileHeaderBytes = 14;  // BITMAPFILEHEADER
constexpr std::size_t kInfoBytes = 40;        // BITMAPINFOHEADER, with which later headers begin
constexpr std::size_t kHeaderBytes = kFileHeaderBytes + kInfoBytes;
constexpr std::size_t kMostInfoBytes = 124;  // BITMAPV5HEADER

// biCompression
constexpr std::uint32_t kUncompressed = 0;
constexpr std::uint32_t kMasks = 3;

using Palette = std::array<std::array<std::byte, 3>, 256>;

Status damaged_bitmap(const std::string& text) { return Status(Code::kCorrupt, "BMP: " + text); }

std::uint32_t little_endian(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t index = count; index-- > 0;) {
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + index]);
  }
  return value;
}

/// What the headers of a file say.
struct Layout {
  int width = 0;
  int height = 0;
  bool from_top = false;
  std::size_t pixel_bytes = 0;
  std::size_t row_bytes = 0;     // a multiple of 4
  std::size_t first = 0;         // byte of the first row
  std::size_t palette = 0;       // byte of its first colour
  std::size_t palette_size = 0;  // colours
};

/// Whether the masks of 32 bits say that a pixel is blue, green, red and a byte more.
bool has_usual_masks(std::span<const std::byte> bytes) {
  constexpr std::array<std::uint32_t, 3> kUsual{0x00FF0000, 0x0000FF00, 0x000000FF};
  if (bytes.size() < kHeaderBytes + 4 * kUsual.size()) return false;
  for (std::size_t index = 0; index < kUsual.size(); ++index) {
    if (little_endian(bytes, kHeaderBytes + 4 * index, 4) != kUsual[index]) return false;
  }
  return true;
}

Result<Layout> read_layout(std::span<const std::byte> bytes, std::uint64_t most_pixels) {
  if (bytes.size() < 2 || bytes[0] != std::byte{'B'} || bytes[1] != std::byte{'M'}) {
    return damaged_bitmap("it does not begin like a BMP file");
  }
  if (bytes.size() < kHeaderBytes) return damaged_bitmap("it ends inside its header");
  const std::size_t info_bytes = little_endian(bytes, kFileHeaderBytes, 4);
  const std::uint32_t bits = little_endian(bytes, 28, 2);
  const std::uint32_t compression = little_endian(bytes, 30, 4);
  const bool plain = compression == kUncompressed && (bits == 8 || bits == 24 || bits == 32);
  const bool masked = compression == kMasks && bits == 32 && has_usual_masks(bytes);
  if (info_bytes < kInfoBytes || info_bytes > kMostInfoBytes || !(plain || masked)) {
    return Status(Code::kUnsupported,
                  "BMP: found a header of " + std::to_string(info_bytes) + " bytes with " +
                      std::to_string(bits) + " bits per pixel and compression " +
                      std::to_string(compression) +
                      ", expected 40 to 124 bytes with 8, 24 or 32 bits, uncompressed",
                  "convert it to PNG: ffmpeg -i IN.bmp OUT.png");
  }
  const auto width = static_cast<std::int32_t>(little_endian(bytes, 18, 4));
  const auto height = static_cast<std::int32_t>(little_endian(bytes, 22, 4));
  Layout layout{.width = width, .from_top = height < 0, .pixel_bytes = bits / 8};
  constexpr std::int32_t kLowest = -(1 << 30);  // of those that have a positive counterpart
  layout.height = height < 0 ? -std::max(height, kLowest) : height;
  if (Status status = check_size(layout.width, layout.height, most_pixels); !status.ok()) {
    return status.with_context("BMP");
  }
  layout.row_bytes = (static_cast<std::size_t>(width) * layout.pixel_bytes + 3) / 4 * 4;
  layout.first = little_endian(bytes, 10, 4);
  layout.palette = kFileHeaderBytes + info_bytes;
  std::size_t least_first = layout.palette;
  if (bits == 8) {
    const std::uint32_t used = little_endian(bytes, 46, 4);
    layout.palette_size = used == 0 ? std::tuple_size_v<Palette> : used;
    if (layout.palette_size > std::tuple_size_v<Palette>) {
      return damaged_bitmap("a palette of " + std::to_string(used) +
                            " colours, expected at most 256");
    }
    least_first += 4 * layout.palette_size;
  }
  const std::size_t needed = layout.row_bytes * static_cast<std::size_t>(layout.height);
  if (layout.first < least_first || layout.first > bytes.size() ||
      bytes.size() - layout.first < needed) {
    return damaged_bitmap("its " + std::to_string(needed) + " bytes of pixels from byte " +
                          std::to_string(layout.first) + " are not all in its " +
                          std::to_string(bytes.size()) + " bytes behind the header");
  }
  return layout;
}

}  // namespace

std::vector<std::byte> encode_bitmap(const Picture& picture) {
  const std::size_t line = 3 * static_cast<std::size_t>(picture.width);
  const std::size_t row_bytes = (line + 3) / 4 * 4;
  std::vector<std::uint8_t> row(line);
  std::vector<std::byte> file(kHeaderBytes + row_bytes * static_cast<std::size_t>(picture.height));
  const auto put = [&](std::size_t at, std::uint32_t value, int bytes) {
    for (int index = 0; index < bytes; ++index, value >>= 8) {
      file[at++] = static_cast<std::byte>(value & 255);
    }
  };
  file[0] = std::byte{'B'};
  file[1] = std::byte{'M'};
  put(2, static_cast<std::uint32_t>(file.size()), 4);
  put(10, kHeaderBytes, 4);
  put(14, 40, 4);
  put(18, static_cast<std::uint32_t>(picture.width), 4);
  put(22, static_cast<std::uint32_t>(-picture.height), 4);  // negative: from the top
  put(26, 1, 2);                                            // planes
  put(28, 24, 2);                                           // bits per pixel
  for (int y = 0; y < picture.height; ++y) {
    unpack_row(picture, y, ChannelOrder::kBgr, row);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(row));
    std::copy(bytes.begin(), bytes.end(),
              file.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes +
                                                         row_bytes * static_cast<std::size_t>(y)));
  }
  return file;
}

Result<Picture> decode_bitmap(std::span<const std::byte> bytes, std::uint64_t most_pixels,
                              std::vector<std::byte>& pixels) {
  const Result<Layout> layout = read_layout(bytes, most_pixels);
  if (!layout.ok()) return layout.status();
  Palette palette{};
  for (std::size_t index = 0; index < layout->palette_size; ++index) {
    std::ranges::copy(bytes.subspan(layout->palette + 4 * index, 3), palette[index].begin());
  }
  Picture picture{.format = PixelFormat::kBgr, .width = layout->width, .height = layout->height};
  picture.row_bytes = packed_row_bytes(picture.format, picture.width);
  const std::size_t needed = packed_bytes(picture.format, picture.width, picture.height);
  if (pixels.size() < needed) pixels.resize(needed);
  const auto height = static_cast<std::size_t>(picture.height);
  std::byte* out = pixels.data();
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t row = layout->from_top ? y : height - 1 - y;
    const std::byte* in = bytes.data() + layout->first + row * layout->row_bytes;
    for (int x = 0; x < picture.width; ++x, in += layout->pixel_bytes) {
      const std::byte* colour =
          layout->pixel_bytes == 1 ? palette[std::to_integer<std::size_t>(*in)].data() : in;
      out = std::copy_n(colour, 3, out);
    }
  }
  picture.bytes = std::span(pixels).first(needed);
  return picture;
}

}  // namespace edgepipe
