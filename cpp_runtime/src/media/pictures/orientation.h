// Exif orientation: how the picture of a JPEG or PNG has to be turned to stand upright.
//
//   const int orientation = exif_orientation(jpeg);  // 1: already upright
//   Picture upright = turned(picture, orientation, pixels);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "edgepipe/picture.h"

namespace edgepipe {

/// The orientation of a JPEG, 1 to 8, from its Exif segment; 1 if it has none or a damaged one.
int exif_orientation(std::span<const std::byte> jpeg);

/// The same of a PNG, from its eXIf chunk.
int png_orientation(std::span<const std::byte> png);

/// `picture` (kRgb), turned upright; its pixels are in `pixels`, which grows if needed.
Picture turned(const Picture& picture, int orientation, std::vector<std::byte>& pixels);

}  // namespace edgepipe
