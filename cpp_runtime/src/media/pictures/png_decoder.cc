#include "media/pictures/png_decoder.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace edgepipe {
namespace {

constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);

Status damaged(const std::string& text) { return Status(Code::kCorrupt, "PNG: " + text); }

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = value << 8 | std::to_integer<unsigned>(byte);
  return value;
}

/// The predictor of filter 4 (PNG specification, 9.4).
int paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int to_left = std::abs(guess - left);
  const int to_above = std::abs(guess - above);
  const int to_corner = std::abs(guess - corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

/// Undoes a row's filter in place; `step` is the distance to the byte of the pixel on the left.
/// False for an unknown filter.
bool unfilter(int filter, std::span<unsigned char> row, const unsigned char* above,
              std::size_t step) {
  for (std::size_t at = 0; at < row.size(); ++at) {
    const int left = at >= step ? row[at - step] : 0;
    const int up = above != nullptr ? above[at] : 0;
    const int corner = at >= step && above != nullptr ? above[at - step] : 0;
    int predicted = 0;
    switch (filter) {
      case 0:
        return true;
      case 1:
        predicted = left;
        break;
      case 2:
        predicted = up;
        break;
      case 3:
        predicted = (left + up) / 2;
        break;
      case 4:
        predicted = paeth(left, up, corner);
        break;
      default:
        return false;
    }
    row[at] = static_cast<unsigned char>(row[at] + predicted);
  }
  return filter <= 4;
}

/// The part of an interlaced picture: first column and row, and the steps to the next ones.
struct Pass {
  std::size_t column, row, column_step, row_step;
};
constexpr std::array<Pass, 7> kPasses{{{0, 0, 8, 8},
                                       {4, 0, 8, 8},
                                       {0, 4, 4, 8},
                                       {2, 0, 4, 4},
                                       {0, 2, 2, 4},
                                       {1, 0, 2, 2},
                                       {0, 1, 1, 2}}};

}  // namespace

struct PngDecoder::Header {
  enum Colour : unsigned { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgbAlpha = 6 };

  std::size_t width = 0;
  std::size_t height = 0;
  unsigned depth = 0;  // bits per value
  unsigned colour = 0;
  bool interlaced = false;

  [[nodiscard]] std::size_t channels() const {
    return colour == kRgb ? 3 : colour == kGrayAlpha ? 2 : colour == kRgbAlpha ? 4 : 1;
  }
  [[nodiscard]] std::size_t row_bytes(std::size_t columns) const {
    return (columns * channels() * depth + 7) / 8;
  }
  [[nodiscard]] bool valid() const {
    const bool small = depth == 1 || depth == 2 || depth == 4;
    switch (colour) {
      case kGray:
        return small || depth == 8 || depth == 16;
      case kPalette:
        return small || depth == 8;
      case kRgb:
      case kGrayAlpha:
      case kRgbAlpha:
        return depth == 8 || depth == 16;
      default:
        return false;
    }
  }

  /// The byte of value `index` of a row: the upper byte of 16 bits; fewer than 8 are not scaled.
  [[nodiscard]] unsigned value(const unsigned char* row, std::size_t index) const {
    if (depth == 8) return row[index];
    if (depth == 16) return row[2 * index];
    const std::size_t bit = index * depth;
    return static_cast<unsigned>(row[bit / 8]) >> (8 - depth - bit % 8) & ((1U << depth) - 1);
  }
};

PngDecoder::PngDecoder(std::shared_ptr<void> library, Inflate inflate)
    : library_(std::move(library)), inflate_(inflate) {}

Result<PngDecoder> PngDecoder::create() {
  std::shared_ptr<void> library(::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL), [](void* handle) {
    if (handle != nullptr) ::dlclose(handle);
  });
  void* inflate = library ? ::dlsym(library.get(), "uncompress") : nullptr;
  if (inflate == nullptr) {
    return Status(Code::kUnsupported, "libz.so.1 cannot be loaded, it is needed for PNG",
                  "install zlib1g");
  }
  return PngDecoder(std::move(library), reinterpret_cast<Inflate>(inflate));
}

Result<Picture> PngDecoder::decode(std::span<const std::byte> bytes, std::uint64_t most_pixels) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kSignature)) return damaged("it does not begin like a PNG file");
  Header header;
  packed_.clear();
  palette_.clear();
  bool ended = false;
  for (std::size_t at = kSignature.size(); !ended && bytes.size() - at >= 12;) {
    const std::size_t length = big_endian(bytes.subspan(at));
    const std::string_view kind = text.substr(at + 4, 4);
    if (length > bytes.size() - at - 12) break;
    const std::span<const std::byte> chunk = bytes.subspan(at + 8, length);
    const auto* data = reinterpret_cast<const unsigned char*>(chunk.data());
    if (header.width == 0) {
      if (kind != "IHDR" || length != 13) return damaged("it does not begin with its header");
      const std::uint32_t width = big_endian(chunk);
      const std::uint32_t height = big_endian(chunk.subspan(4));
      const auto side = [](std::uint32_t value) {
        return static_cast<int>(std::min<std::uint32_t>(value, 1U << 30));
      };
      if (Status status = check_size(side(width), side(height), most_pixels); !status.ok()) {
        return status.with_context("PNG");
      }
      header = {.width = width, .height = height, .depth = data[8], .colour = data[9]};
      header.interlaced = data[12] == 1;
      if (!header.valid() || data[10] != 0 || data[11] != 0 || data[12] > 1) {
        return damaged("colour type " + std::to_string(header.colour) + " with " +
                       std::to_string(header.depth) + " bits, which PNG does not have");
      }
    } else if (kind == "PLTE") {
      palette_.assign(data, data + length / 3 * 3);
    } else if (kind == "IDAT") {
      packed_.insert(packed_.end(), data, data + length);
    }
    ended = kind == "IEND";
    at += 12 + length;
  }
  if (!ended) return damaged("it ends too early");

  std::size_t total = 0;
  const auto count = [](std::size_t side, std::size_t first, std::size_t step) {
    return side > first ? (side - first + step - 1) / step : 0;
  };
  const std::array<Pass, 1> whole{{{0, 0, 1, 1}}};
  const std::span<const Pass> passes =
      header.interlaced ? std::span<const Pass>(kPasses) : std::span<const Pass>(whole);
  for (const Pass& pass : passes) {
    const std::size_t columns = count(header.width, pass.column, pass.column_step);
    const std::size_t rows = count(header.height, pass.row, pass.row_step);
    if (columns > 0) total += rows * (1 + header.row_bytes(columns));
  }
  if (filtered_.size() < total) filtered_.resize(total);
  auto inflated = static_cast<unsigned long>(total);
  if (inflate_(filtered_.data(), &inflated, packed_.data(),
               static_cast<unsigned long>(packed_.size())) != 0 ||
      inflated != total) {
    return damaged("its data cannot be decompressed to " + std::to_string(total) + " bytes");
  }
  Picture picture{.format = PixelFormat::kRgb,
                  .width = static_cast<int>(header.width),
                  .height = static_cast<int>(header.height)};
  picture.row_bytes = packed_row_bytes(picture.format, picture.width);
  const std::size_t needed = packed_bytes(picture.format, picture.width, picture.height);
  if (pixels_.size() < needed) pixels_.resize(needed);
  std::size_t at = 0;
  for (const Pass& pass : passes) {
    Status status = unpack(header, count(header.width, pass.column, pass.column_step),
                           count(header.height, pass.row, pass.row_step), pass.column, pass.row,
                           pass.column_step, pass.row_step, at);
    if (!status.ok()) return status;
  }
  picture.bytes = std::span(pixels_).first(needed);
  return picture;
}

/// Writes the pixels of one pass from `filtered_` at `at`, which moves behind them.
Status PngDecoder::unpack(const Header& header, std::size_t columns, std::size_t rows,
                          std::size_t first_column, std::size_t first_row, std::size_t column_step,
                          std::size_t row_step, std::size_t& at) {
  if (columns == 0) return {};
  const std::size_t row_bytes = header.row_bytes(columns);
  const std::size_t pixel_bytes = std::max<std::size_t>(header.channels() * header.depth / 8, 1);
  const std::size_t channels = header.channels();
  // Spreads gray of 1, 2 or 4 bits over 0 to 255.
  const unsigned spread =
      header.colour == Header::kGray && header.depth < 8 ? 255 / ((1U << header.depth) - 1) : 1;
  const unsigned char* above = nullptr;
  for (std::size_t row = 0; row < rows; ++row) {
    unsigned char* values = filtered_.data() + at + 1;
    if (!unfilter(filtered_[at], {values, row_bytes}, above, pixel_bytes)) {
      return damaged("filter " + std::to_string(filtered_[at]) + ", expected 0 to 4");
    }
    above = values;
    at += 1 + row_bytes;
    std::byte* out = pixels_.data() + 3 * (first_row + row * row_step) * header.width;
    for (std::size_t column = 0; column < columns; ++column) {
      std::byte* pixel = out + 3 * (first_column + column * column_step);
      const std::size_t first = column * channels;
      if (header.colour == Header::kPalette) {
        const std::size_t entry = 3 * std::size_t{header.value(values, first)};
        if (entry + 3 > palette_.size()) return damaged("a colour is not in its palette");
        for (std::size_t c = 0; c < 3; ++c) pixel[c] = static_cast<std::byte>(palette_[entry + c]);
        continue;
      }
      const std::size_t step = channels >= 3 ? 1 : 0;  // gray: the same value three times
      for (std::size_t c = 0; c < 3; ++c) {
        pixel[c] = static_cast<std::byte>(header.value(values, first + c * step) * spread);
      }
    }
  }
  return {};
}

}  // namespace edgepipe
