#include "media/sources/compressed_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "edgepipe/picture_source.h"
#include "media/pictures/pnm_header.h"

namespace edgepipe {
namespace {

struct Signature {
  std::string_view format;
  std::size_t offset;
  std::string_view bytes;
};

using namespace std::string_view_literals;

// At least four bytes each, so that raw pixels are hardly ever taken for one of them.
constexpr std::array kSignatures{
    Signature{"PNG", 0, "\x89PNG\r\n\x1a\n"sv},      //
    Signature{"GIF", 0, "GIF89a"sv},                 //
    Signature{"GIF", 0, "GIF87a"sv},                 //
    Signature{"TIFF", 0, "II*\0"sv},                 //
    Signature{"TIFF", 0, "MM\0*"sv},                 //
    Signature{"WebP", 8, "WEBPVP8"sv},               // after RIFF and its length
    Signature{"AVI", 8, "AVI LIST"sv},               // after RIFF and its length
    Signature{"MP4", 4, "ftyp"sv},                   //
    Signature{"Matroska", 0, "\x1a\x45\xdf\xa3"sv},  // also WebM
};

/// Whether the content of a segment begins with a name of those that JPEGs begin with.
bool is_named(std::span<const std::byte> content) {
  constexpr std::array kNames{"JFIF\0"sv, "Exif\0"sv, "ICC_PROFILE\0"sv, "MPF\0"sv, "http://ns."sv};
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  return std::ranges::any_of(kNames, [&](std::string_view name) { return text.starts_with(name); });
}

/// Whether `bytes` begin like a JPEG. White pixels begin like its marker, so the segments that
/// follow must also be those of a JPEG, up to its data or the end of `bytes`.
bool begins_like_jpeg(std::span<const std::byte> bytes) {
  constexpr unsigned kData = 0xDA;
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(bytes[at]); };
  if (bytes.size() < 4 || byte(0) != 0xFF || byte(1) != 0xD8) return false;
  std::size_t segments = 0;
  for (std::size_t at = 2; bytes.size() - at >= 4; ++segments) {
    const unsigned marker = byte(at + 1);
    const std::size_t length = byte(at + 2) << 8 | byte(at + 3);
    // ITU-T T.81, table B.1: frames and tables, application data, a comment.
    const bool known = (marker >= 0xC0 && marker <= 0xCF && marker != 0xC8) ||
                       (marker >= 0xDA && marker <= 0xDD) || (marker >= 0xE0 && marker <= 0xEF) ||
                       marker == 0xFE;
    if (byte(at) != 0xFF || !known || length < 2) return false;
    if (marker == kData) return segments > 0;
    if (length + 2 > bytes.size() - at) return segments > 0 || is_named(bytes.subspan(at + 4));
    at += 2 + length;
  }
  return segments > 0;
}

/// Whether `bytes` begin like a Windows bitmap: its mark, four zeros, and a header of a known size.
bool begins_like_bitmap(std::span<const std::byte> bytes) {
  constexpr std::size_t kHeaderAt = 14;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("BM"sv) || text.size() < kHeaderAt + 4) return false;
  constexpr std::array kSizes{"\x28\0\0\0"sv, "\x6c\0\0\0"sv, "\x7c\0\0\0"sv};  // v3, v4, v5
  return text.substr(6, 4) == "\0\0\0\0"sv &&
         std::ranges::find(kSizes, text.substr(kHeaderAt, 4)) != kSizes.end();
}

constexpr std::size_t kHeadBytes = std::size_t{1} << 18;  // a few segments of a JPEG

}  // namespace

std::string_view compressed_format(std::span<const std::byte> bytes) {
  if (begins_like_jpeg(bytes)) return "JPEG";
  if (begins_like_bitmap(bytes)) return "BMP";
  std::span<const std::byte> rest = bytes;
  const Result<PnmHeader> pnm = take_pnm_header(rest);
  if (pnm.ok()) return pnm->gray ? "PGM" : "PPM";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto found = std::ranges::find_if(kSignatures, [&](const Signature& signature) {
    return text.size() > signature.offset &&
           text.substr(signature.offset).starts_with(signature.bytes);
  });
  return found == kSignatures.end() ? "" : found->format;
}

bool is_compressed_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::vector<char> head(kHeadBytes);
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return !compressed_format(std::as_bytes(std::span(head))).empty();
}

}  // namespace edgepipe
