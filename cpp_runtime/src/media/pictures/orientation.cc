#include "media/pictures/orientation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace edgepipe {
namespace {

/// Numbers of a TIFF structure, which may be of either byte order. Nothing beyond the end is read.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == std::byte{'I'}) {}

  /// Whether it begins with two letters for the byte order and 42.
  [[nodiscard]] bool has_head() const {
    const auto order = number(0, 2);
    return (order == 0x4949 || order == 0x4D4D) && number(2, 2) == 42;
  }

  [[nodiscard]] std::optional<std::uint32_t> number(std::size_t at, std::size_t length) const {
    if (at > bytes_.size() || bytes_.size() - at < length) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < length; ++index) {
      const std::size_t place = little_ ? at + length - 1 - index : at + index;
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[place]);
    }
    return value;
  }

  /// The value of a 16-bit tag in the first directory.
  [[nodiscard]] std::optional<std::uint32_t> short_tag(std::uint32_t tag) const {
    const auto directory = number(4, 4);
    const auto count = directory ? number(*directory, 2) : std::nullopt;
    for (std::uint32_t entry = 0; count && entry < *count; ++entry) {
      const std::size_t at = std::size_t{*directory} + 2 + std::size_t{12} * entry;
      const auto found = number(at, 2);
      if (!found) return std::nullopt;
      if (*found == tag) return number(at + 8, 2);
    }
    return std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

constexpr std::uint32_t kOrientation = 0x0112;  // Exif 2.3, table 4
constexpr std::size_t kExifHeadBytes = 6;       // "Exif" and two zeros

bool is_exif(std::span<const std::byte> segment) {
  constexpr char kHead[kExifHeadBytes] = {'E', 'x', 'i', 'f', 0, 0};
  return segment.size() > kExifHeadBytes &&
         std::equal(std::begin(kHead), std::end(kHead), segment.begin(),
                    [](char one, std::byte other) { return static_cast<std::byte>(one) == other; });
}

int orientation_of(const Tiff& tiff) {
  const auto found = tiff.has_head() ? tiff.short_tag(kOrientation) : std::nullopt;
  return found && *found >= 1 && *found <= 8 ? static_cast<int>(*found) : 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> jpeg) {
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(jpeg[at]); };
  std::size_t at = 2;
  while (at + 4 <= jpeg.size() && byte(at) == 0xFF) {
    const unsigned marker = byte(at + 1);
    if (marker == 0xFF) {  // any number of these may be in front of a marker
      ++at;
      continue;
    }
    const std::size_t length = byte(at + 2) << 8 | byte(at + 3);
    if (marker == 0xDA || length < 2 || length > jpeg.size() - at - 2) break;
    const std::span<const std::byte> segment = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xE1 && is_exif(segment)) {
      return orientation_of(Tiff(segment.subspan(kExifHeadBytes)));
    }
    at += 2 + length;
  }
  return 1;
}

int png_orientation(std::span<const std::byte> png) {
  constexpr std::size_t kSignatureBytes = 8;
  constexpr std::size_t kAroundChunkBytes = 12;  // its length, its kind and its checksum
  for (std::size_t at = kSignatureBytes;
       at <= png.size() && png.size() - at >= kAroundChunkBytes;) {
    std::size_t length = 0;
    for (std::size_t index = 0; index < 4; ++index) {
      length = length << 8 | std::to_integer<std::size_t>(png[at + index]);
    }
    if (length > png.size() - at - kAroundChunkBytes) break;
    const std::string_view kind(reinterpret_cast<const char*>(png.data()) + at + 4, 4);
    if (kind == "eXIf") return orientation_of(Tiff(png.subspan(at + 8, length)));
    at += kAroundChunkBytes + length;
  }
  return 1;
}

Picture turned(const Picture& picture, int orientation, std::vector<std::byte>& pixels) {
  if (orientation == 1) return picture;
  const bool swaps_sides = orientation >= 5;
  Picture upright = picture;
  if (swaps_sides) std::swap(upright.width, upright.height);
  upright.row_bytes = packed_row_bytes(upright.format, upright.width);
  const std::size_t needed = packed_bytes(upright.format, upright.width, upright.height);
  if (pixels.size() < needed) pixels.resize(needed);
  // The sides of the stored picture that the upright one begins with.
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto width = static_cast<std::size_t>(upright.width);
  const auto height = static_cast<std::size_t>(upright.height);
  const auto last_column = static_cast<std::size_t>(picture.width) - 1;
  const auto last_row = static_cast<std::size_t>(picture.height) - 1;
  std::byte* out = pixels.data();
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t column = swaps_sides ? y : x;
      const std::size_t row = swaps_sides ? x : y;
      const std::byte* in = picture.bytes.data() +
                            (from_bottom ? last_row - row : row) * picture.row_bytes +
                            3 * (from_right ? last_column - column : column);
      out = std::copy_n(in, 3, out);
    }
  }
  upright.bytes = std::span(pixels).first(needed);
  return upright;
}

}  // namespace edgepipe
