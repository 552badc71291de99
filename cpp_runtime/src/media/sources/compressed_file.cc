#include "media/sources/compressed_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <system_error>

#include "edgepipe/picture_source.h"

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
    Signature{"JPEG", 0, "\xff\xd8\xff\xe0"sv},  // JFIF
    Signature{"JPEG", 0, "\xff\xd8\xff\xe1"sv},  // Exif
    Signature{"JPEG", 0, "\xff\xd8\xff\xe2"sv},  // ICC profile or MPF
    Signature{"JPEG", 0, "\xff\xd8\xff\xee"sv},  // Adobe
    Signature{"JPEG", 0, "\xff\xd8\xff\xdb"sv},  // without a header of its own
    // White pixels nearly begin like these: so also the length, and the depth of 8 bits.
    Signature{"JPEG", 0, "\xff\xd8\xff\xfe\0"sv},          // a comment of up to 253 characters
    Signature{"JPEG", 0, "\xff\xd8\xff\xc0\0\x11\x08"sv},  // a frame of three components
    Signature{"JPEG", 0, "\xff\xd8\xff\xc0\0\x0b\x08"sv},  // a frame of one
    Signature{"PNG", 0, "\x89PNG\r\n\x1a\n"sv},            //
    Signature{"GIF", 0, "GIF8"sv},                         //
    Signature{"TIFF", 0, "II*\0"sv},                       //
    Signature{"TIFF", 0, "MM\0*"sv},                       //
    Signature{"WebP", 8, "WEBPVP8"sv},                     // after RIFF and its length
    Signature{"BMP", 6, "\0\0\0\0\x36\0\0\0\x28"sv},       // pixels at 54, a header of 40 bytes
    Signature{"AVI", 8, "AVI LIST"sv},                     // after RIFF and its length
    Signature{"MP4", 4, "ftyp"sv},                         //
    Signature{"Matroska", 0, "\x1a\x45\xdf\xa3"sv},        // also WebM
};

constexpr std::size_t kHeadBytes = 16;

}  // namespace

std::string_view compressed_format(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kHeadBytes));
  const auto found = std::ranges::find_if(kSignatures, [&](const Signature& signature) {
    return head.size() > signature.offset &&
           head.substr(signature.offset).starts_with(signature.bytes);
  });
  return found == kSignatures.end() ? "" : found->format;
}

bool is_compressed_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::array<char, kHeadBytes> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  const std::span<const char> read(head.data(), static_cast<std::size_t>(file.gcount()));
  return !compressed_format(std::as_bytes(read)).empty();
}

}  // namespace edgepipe
