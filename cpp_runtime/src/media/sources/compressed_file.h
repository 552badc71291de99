// compressed_format: recognises compressed pictures and videos by how they begin, and PPM and PGM,
// whose header would be taken for pixels as well.
//
//   compressed_format(bytes)  // "JPEG", "PNG", ..., "" for anything else, such as raw pixels
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace edgepipe {

/// The name of the format that `bytes` begin with; empty if they begin like none of those known.
/// `bytes` are the whole file or its beginning. White pixels begin like a JPEG's first marker, so
/// of a JPEG the segments up to its data must be right, too.
std::string_view compressed_format(std::span<const std::byte> bytes);

}  // namespace edgepipe
