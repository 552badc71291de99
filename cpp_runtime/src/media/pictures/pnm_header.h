// PnmHeader: the header of a binary PPM (P6) or PGM (P5) picture.
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

/// The header of a picture with 8 bits per channel.
struct PnmHeader {
  bool gray = false;
  int width = 0;   // pixels
  int height = 0;  // pixels
};

/// Reads a header and the single white space after it; comments may precede the numbers. None at
/// the end of the stream or once `stop` is set, kCorrupt for anything else. Blocks.
Result<std::optional<PnmHeader>> read_pnm_header(ByteStream& stream, const std::atomic<bool>& stop);

/// The same from the front of a file's bytes, which are unchanged after kCorrupt.
Result<PnmHeader> take_pnm_header(std::span<const std::byte>& bytes);

}  // namespace edgepipe
