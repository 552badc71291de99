// Windows bitmaps: encode_bitmap writes what every browser shows, decode_bitmap reads files.
//
//   std::vector<std::byte> file = encode_bitmap(picture);
//   Result<Picture> picture = decode_bitmap(file, kMostPixels, pixels);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// 24 bits per pixel, rows from the top. `picture` is checked and kRgb, kBgr or kGray.
std::vector<std::byte> encode_bitmap(const Picture& picture);

/// Decodes to kBgr; the pixels are in `pixels`, which grows if needed. Bitmaps have 24 or 32 bits
/// per pixel (blue, green, red; a fourth byte is dropped) or 8 with a palette, uncompressed, with
/// rows from the bottom or the top. kUnsupported for other kinds, kCorrupt for damage and for more
/// than `most_pixels`, for which only the header is read. A colour that the palette lacks is black,
/// as in `edgepipe run`.
Result<Picture> decode_bitmap(std::span<const std::byte> bytes, std::uint64_t most_pixels,
                              std::vector<std::byte>& pixels);

}  // namespace edgepipe
