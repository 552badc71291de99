// Pictures of random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "edgepipe/picture.h"

namespace edgepipe {

/// The same bytes in every run.
inline std::vector<std::uint8_t> noise(std::size_t bytes) {
  std::mt19937 random(7);
  std::vector<std::uint8_t> made(bytes);
  for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(random());
  return made;
}

/// A picture without padding in `bytes`, which must outlive it.
inline Picture picture_of(PixelFormat format, int width, int height,
                          const std::vector<std::uint8_t>& bytes) {
  return {.format = format,
          .width = width,
          .height = height,
          .row_bytes = packed_row_bytes(format, width),
          .bytes = std::as_bytes(std::span(bytes))};
}

}  // namespace edgepipe
