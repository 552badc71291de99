// A PNG of an arbitrary header, palette and rows, in chunks and zlib data without a fault, is
// refused or decoded. Mutated zlib data is hardly ever valid, so the picture target seldom gets
// behind it.
//
// The input is the 13 bytes of the header, the palette's number of bytes, the palette, then the
// rows as zlib gives them: each after the byte of its filter.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "media/pictures/png_decoder.h"

namespace edgepipe {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kHeaderBytes = 13;                      // PNG specification, 11.2.2
constexpr std::uint64_t kFewPixels = std::uint64_t{1} << 14;  // so that an input takes milliseconds

void append(std::vector<std::uint8_t>& to, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

/// The decoder ignores the checksum at the end of a chunk.
void append_chunk(std::vector<std::uint8_t>& to, std::string_view kind, Bytes content) {
  append(to, static_cast<std::uint32_t>(content.size()));
  to.insert(to.end(), kind.begin(), kind.end());
  to.insert(to.end(), content.begin(), content.end());
  append(to, 0);
}

/// zlib data (RFC 1950) of stored blocks (RFC 1951, 3.2.4).
std::vector<std::uint8_t> stored(Bytes rows) {
  constexpr std::size_t kMostStored = 65535;
  std::vector<std::uint8_t> data{0x78, 0x01};
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const std::uint8_t byte : rows) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  do {
    const Bytes block = rows.first(std::min(kMostStored, rows.size()));
    rows = rows.subspan(block.size());
    data.push_back(rows.empty() ? 1 : 0);
    const auto length = static_cast<std::uint16_t>(block.size());
    for (const unsigned half : {unsigned{length}, ~unsigned{length}}) {
      data.push_back(static_cast<std::uint8_t>(half));
      data.push_back(static_cast<std::uint8_t>(half >> 8));
    }
    data.insert(data.end(), block.begin(), block.end());
  } while (!rows.empty());
  append(data, high << 16 | low);
  return data;
}

/// How many bytes of rows a picture has by its header; PNG specification, 7.2 and 8.1. None for one
/// that is refused for its size.
std::size_t row_bytes(Bytes header) {
  const auto side = [&](std::size_t at) {
    return std::size_t{header[at]} << 24 | std::size_t{header[at + 1]} << 16 |
           std::size_t{header[at + 2]} << 8 | header[at + 3];
  };
  const std::size_t width = side(0);
  const std::size_t height = side(4);
  if (width * height > kFewPixels) return 0;
  constexpr std::array<std::size_t, 7> kChannels{1, 0, 3, 1, 2, 0, 4};  // of a colour type
  const std::size_t channels = header[9] < kChannels.size() ? kChannels[header[9]] : 0;
  const auto pass = [&](std::size_t first_column, std::size_t column_step, std::size_t first_row,
                        std::size_t row_step) {
    if (width <= first_column || height <= first_row) return std::size_t{0};
    const std::size_t columns = (width - first_column + column_step - 1) / column_step;
    const std::size_t rows = (height - first_row + row_step - 1) / row_step;
    return rows * (1 + (columns * channels * header[8] + 7) / 8);
  };
  if (header[12] != 1) return pass(0, 1, 0, 1);
  return pass(0, 8, 0, 8) + pass(4, 8, 0, 8) + pass(0, 4, 4, 8) + pass(2, 4, 0, 4) +
         pass(0, 2, 2, 4) + pass(1, 2, 0, 2) + pass(0, 1, 1, 2);
}

void decode(Bytes header, Bytes palette, Bytes given) {
  static Result<PngDecoder> decoder = PngDecoder::create();
  if (!decoder.ok()) std::abort();
  std::vector<std::uint8_t> rows(given.begin(), given.end());
  rows.resize(row_bytes(header));  // the rest is zeros
  constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
  std::vector<std::uint8_t> file(kSignature.begin(), kSignature.end());
  append_chunk(file, "IHDR", header);
  if (!palette.empty()) append_chunk(file, "PLTE", palette);
  append_chunk(file, "IDAT", stored(rows));
  append_chunk(file, "IEND", {});
  const Result<Picture> picture = decoder->decode(std::as_bytes(Bytes(file)), kFewPixels);
  if (!picture.ok()) return;
  // Reads every byte, so that the sanitizer sees a picture smaller than its size.
  const int sum = std::accumulate(
      picture->bytes.begin(), picture->bytes.end(), 0,
      [](int before, std::byte byte) { return before ^ std::to_integer<int>(byte); });
  const std::size_t needed = packed_bytes(PixelFormat::kRgb, picture->width, picture->height);
  if (sum < 0 || picture->bytes.size() != needed) std::abort();
}

}  // namespace
}  // namespace edgepipe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace edgepipe;
  Bytes rest(data, bytes);
  if (rest.size() <= kHeaderBytes) return 0;
  const Bytes header = rest.first(kHeaderBytes);
  const std::size_t palette_bytes = rest[kHeaderBytes];
  rest = rest.subspan(kHeaderBytes + 1);
  const Bytes palette = rest.first(std::min(palette_bytes, rest.size()));
  decode(header, palette, rest.subspan(palette.size()));
  return 0;
}
