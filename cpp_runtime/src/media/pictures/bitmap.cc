#include "media/pictures/bitmap.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "media/pictures/pixel_row.h"

namespace edgepipe {
namespace {

constexpr std::size_t kHeaderBytes = 54;  // BITMAPFILEHEADER (14) and BITMAPINFOHEADER (40)

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

}  // namespace edgepipe
