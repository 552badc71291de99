// PngDecoder: decodes PNG of every colour type and depth, using zlib, which is loaded at run time.
//
//   Result<PngDecoder> decoder = PngDecoder::create();  // kUnsupported: zlib is not installed
//   Result<Picture> picture = decoder->decode(bytes);
//
// Transparency is dropped and 16 bits become the upper 8, as `edgepipe run` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"

namespace edgepipe {

class PngDecoder {
 public:
  static Result<PngDecoder> create();

  /// Decodes to kRgb; the picture is valid until the next decode. kCorrupt for damage and for more
  /// than `most_pixels`, for which only the header is read. Allocates only when the size grows. One
  /// thread at a time.
  Result<Picture> decode(std::span<const std::byte> bytes, std::uint64_t most_pixels = kMostPixels);

 private:
  struct Header;
  using Inflate = int (*)(unsigned char* to, unsigned long* to_bytes, const unsigned char* from,
                          unsigned long from_bytes);

  PngDecoder(std::shared_ptr<void> library, Inflate inflate);
  Status unpack(const Header& header, std::size_t columns, std::size_t rows,
                std::size_t first_column, std::size_t first_row, std::size_t column_step,
                std::size_t row_step, std::size_t& at);

  std::shared_ptr<void> library_;
  Inflate inflate_;
  std::vector<unsigned char> palette_;   // three bytes each
  std::vector<unsigned char> packed_;    // the file's data, without the chunks around it
  std::vector<unsigned char> filtered_;  // rows, each after a byte that names its filter
  std::vector<std::byte> pixels_;
};

}  // namespace edgepipe
