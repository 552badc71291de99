// unpack_row: converts one row of a picture in any format to bytes in the requested channel order.
#pragma once

#include <cstdint>
#include <span>

#include "edgepipe/picture.h"

namespace edgepipe {

/// The order of a frame's channels.
enum class ChannelOrder { kRgb, kBgr, kGray };

/// Writes row `row` of a checked picture that is not a JPEG: uint8[width, 3] or, for kGray,
/// uint8[width]. Colours from YUV by BT.601 in 8-bit, gray from colours by BT.601 in 15-bit fixed
/// point, each rounded once.
void unpack_row(const Picture& picture, int row, ChannelOrder order, std::span<std::uint8_t> out);

}  // namespace edgepipe
