// PnmHeader: what comes before the pixels of a binary PPM (P6) or PGM (P5) picture.
//
//   Result<std::optional<PnmHeader>> header = read_pnm_header(stream, stop);
//   Result<PnmHeader> header = take_pnm_header(bytes);  // leaves the pixels in `bytes`
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>

#include "base/byte_stream.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Of a picture with 8 bits a channel.
struct PnmHeader {
  bool gray = false;
  int width = 0;   // pixels
  int height = 0;  // pixels
};

/// Reads a header and the one white space behind it; comments are allowed before the numbers. None
/// at the end of the stream or once `stop` is set, kCorrupt for anything else. Blocks.
Result<std::optional<PnmHeader>> read_pnm_header(ByteStream& stream, const std::atomic<bool>& stop);

/// As above, from the front of a file's bytes, which kCorrupt leaves as they are.
Result<PnmHeader> take_pnm_header(std::span<const std::byte>& bytes);

}  // namespace edgepipe
