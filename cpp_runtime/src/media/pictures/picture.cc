#include "edgepipe/picture.h"

#include <algorithm>
#include <array>
#include <utility>

namespace edgepipe {
namespace {

constexpr int kLongestSide = 16384;

constexpr std::array<std::pair<PixelFormat, std::string_view>, 8> kNames{{
    {PixelFormat::kRgb, "rgb"},
    {PixelFormat::kBgr, "bgr"},
    {PixelFormat::kGray, "gray"},
    {PixelFormat::kYuyv, "yuyv"},
    {PixelFormat::kNv12, "nv12"},
    {PixelFormat::kJpeg, "jpeg"},
    {PixelFormat::kPng, "png"},
    {PixelFormat::kBmp, "bmp"},
}};

/// Whether a picture is a whole file, which says its size itself.
bool is_file(PixelFormat format) {
  return format == PixelFormat::kJpeg || format == PixelFormat::kPng || format == PixelFormat::kBmp;
}

/// Rows of `row_bytes` in all planes.
std::size_t rows(PixelFormat format, int height) {
  const auto count = static_cast<std::size_t>(height);
  return format == PixelFormat::kNv12 ? count + count / 2 : count;
}

}  // namespace

std::string_view name_of(PixelFormat format) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const auto& entry) { return entry.first == format; })
      ->second;
}

std::optional<PixelFormat> parse_pixel_format(std::string_view name) {
  for (const auto& [format, format_name] : kNames) {
    if (format_name != name) continue;
    if (format == PixelFormat::kPng || format == PixelFormat::kBmp) break;  // from files only
    return format;
  }
  return std::nullopt;
}

std::size_t packed_row_bytes(PixelFormat format, int width) {
  const auto pixels = static_cast<std::size_t>(width);
  switch (format) {
    case PixelFormat::kRgb:
    case PixelFormat::kBgr:
      return 3 * pixels;
    case PixelFormat::kGray:
    case PixelFormat::kNv12:
      return pixels;
    case PixelFormat::kYuyv:
      return 2 * pixels;
    case PixelFormat::kJpeg:
    case PixelFormat::kPng:
    case PixelFormat::kBmp:
      break;
  }
  return 0;
}

std::size_t packed_bytes(PixelFormat format, int width, int height) {
  return packed_row_bytes(format, width) * rows(format, height);
}

Status check_size(int width, int height, std::uint64_t most_pixels) {
  const std::string size = std::to_string(width) + "x" + std::to_string(height) + " pixels";
  if (width < 1 || height < 1 || width > kLongestSide || height > kLongestSide) {
    return Status(Code::kCorrupt, "the picture is " + size + ", expected sides of 1 to " +
                                      std::to_string(kLongestSide));
  }
  if (static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) <= most_pixels) {
    return {};
  }
  return Status(
      Code::kCorrupt,
      "the picture is " + size + ", expected at most " + std::to_string(most_pixels) + " in all",
      "scale it down, or raise the limit of a picture's pixels");
}

Status check(const Picture& picture) {
  const auto refuse = [&](const std::string& text) {
    return Status(Code::kInvalidArgument, "picture " + std::string(name_of(picture.format)) + " " +
                                              std::to_string(picture.width) + "x" +
                                              std::to_string(picture.height) + ": " + text);
  };
  if (is_file(picture.format)) {
    return picture.bytes.empty() ? refuse("no bytes") : Status();
  }
  if (picture.width < 1 || picture.height < 1 || picture.width > kLongestSide ||
      picture.height > kLongestSide) {
    return refuse("expected sides of 1 to " + std::to_string(kLongestSide) + " pixels");
  }
  const bool pairs = picture.format == PixelFormat::kYuyv || picture.format == PixelFormat::kNv12;
  if (pairs && picture.width % 2 != 0) return refuse("expected an even width");
  if (picture.format == PixelFormat::kNv12 && picture.height % 2 != 0) {
    return refuse("expected an even height");
  }
  const std::size_t packed = packed_row_bytes(picture.format, picture.width);
  if (picture.row_bytes < packed) {
    return refuse("rows are " + std::to_string(picture.row_bytes) + " bytes apart, expected " +
                  std::to_string(packed) + " or more");
  }
  const std::size_t needed =
      picture.row_bytes * (rows(picture.format, picture.height) - 1) + packed;
  if (picture.bytes.size() < needed) {
    return refuse("has " + std::to_string(picture.bytes.size()) + " bytes, expected " +
                  std::to_string(needed));
  }
  return {};
}

}  // namespace edgepipe
