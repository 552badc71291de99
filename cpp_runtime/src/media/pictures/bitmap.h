// encode_bitmap: a picture as a Windows bitmap, which every browser shows.
#pragma once

#include <cstddef>
#include <vector>

#include "edgepipe/picture.h"

namespace edgepipe {

/// 24 bits per pixel, rows from the top. `picture` is checked and kRgb, kBgr or kGray.
std::vector<std::byte> encode_bitmap(const Picture& picture);

}  // namespace edgepipe
