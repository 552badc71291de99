// digest: the 128-bit XXH3 of a byte string, as the 32 hex digits in a manifest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace edgepipe {

/// Lower-case hex of the canonical (big-endian) form, as Python's xxhash.xxh3_128_hexdigest.
std::string xxh3_128(std::span<const std::byte> content);

}  // namespace edgepipe
