#include "bundle/archive.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace edgepipe {
namespace {

constexpr std::size_t kBlockBytes = 512;

// A field of the header block: offset and width in bytes (POSIX.1-1988, 10.1.1).
struct Field {
  std::size_t offset;
  std::size_t width;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kTypeOffset = 156;
constexpr Field kMagic{257, 8};  // magic and version
constexpr Field kPrefix{345, 155};
constexpr std::string_view kUstar("ustar\00000", 8);

using Block = std::span<const std::byte, kBlockBytes>;

std::string_view text_of(Block block, Field field) {
  const auto* start = reinterpret_cast<const char*>(block.data()) + field.offset;
  return {start, field.width};
}

/// A NUL-terminated text, which may also fill its field.
std::string_view string_of(Block block, Field field) {
  const std::string_view text = text_of(block, field);
  return text.substr(0, text.find('\0'));
}

/// Octal digits that end with a space or NUL; none for anything else (base 256 is not ustar).
std::optional<std::uint64_t> octal_of(Block block, Field field) {
  const std::string_view text = text_of(block, field);
  std::uint64_t value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '7') {
    value = value * 8 + static_cast<std::uint64_t>(text[digits] - '0');
    ++digits;
  }
  const bool ended = digits == text.size() || text[digits] == ' ' || text[digits] == '\0';
  if (digits == 0 || !ended) return std::nullopt;
  return value;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// The sum of all header bytes, with the checksum field counted as spaces.
std::uint64_t checksum(Block block) {
  std::uint64_t sum = kChecksum.width * ' ';
  for (std::size_t index = 0; index < block.size(); ++index) {
    const bool own = index >= kChecksum.offset && index < kChecksum.offset + kChecksum.width;
    if (!own) sum += std::to_integer<std::uint64_t>(block[index]);
  }
  return sum;
}

Status corrupt(std::size_t offset, const std::string& text) {
  return Status(Code::kCorrupt, "archive, offset " + std::to_string(offset) + ": " + text);
}

}  // namespace

bool is_plain_path(std::string_view path) {
  std::size_t start = 0;
  while (start <= path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, slash - start);
    if (part.empty() || part == "." || part == "..") return false;
    const bool has_control = std::ranges::any_of(
        part, [](char letter) { return static_cast<unsigned char>(letter) < 0x20; });
    if (has_control) return false;
    start = slash + 1;
  }
  return true;
}

Result<Archive> Archive::parse(std::span<const std::byte> bytes) {
  Archive archive;
  std::size_t offset = 0;
  for (;;) {
    if (bytes.size() - offset < kBlockBytes) {
      return corrupt(offset, "truncated: the two empty blocks at the end are missing");
    }
    const Block block = bytes.subspan(offset).first<kBlockBytes>();
    if (is_zero(block)) break;

    if (text_of(block, kMagic) != kUstar) {
      return corrupt(offset, "no ustar header (write the archive in ustar format, uncompressed)");
    }
    if (octal_of(block, kChecksum) != checksum(block)) {
      return corrupt(offset, "the header's checksum is wrong");
    }
    std::string path(string_of(block, kName));
    if (const std::string_view prefix = string_of(block, kPrefix); !prefix.empty()) {
      path.insert(0, "/").insert(0, prefix);
    }
    const char type = static_cast<char>(block[kTypeOffset]);
    const bool is_folder = type == '5';
    if (is_folder && path.ends_with('/')) path.pop_back();
    if (!is_plain_path(path)) {
      return corrupt(offset, "the path '" + path + "' is not a plain relative path");
    }
    if (type != '0' && type != '\0' && !is_folder) {
      return corrupt(offset, "'" + path + "' is of type '" + std::string(1, type) +
                                 "', expected a regular file or a folder");
    }
    const std::optional<std::uint64_t> size = octal_of(block, kSize);
    if (!size || (is_folder && *size != 0)) {
      return corrupt(offset, "the size of '" + path + "' is not a number");
    }
    offset += kBlockBytes;
    if (*size > bytes.size() - offset) {
      return corrupt(offset, "truncated: '" + path + "' has " + std::to_string(*size) +
                                 " bytes, but only " + std::to_string(bytes.size() - offset) +
                                 " follow");
    }
    const auto content_bytes = static_cast<std::size_t>(*size);
    if (!is_folder) {
      archive.entries_.push_back({std::move(path), bytes.subspan(offset, content_bytes)});
    }
    const std::size_t padded = (content_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    if (padded > bytes.size() - offset ||
        !is_zero(bytes.subspan(offset + content_bytes, padded - content_bytes))) {
      return corrupt(offset + content_bytes, "the padding after a file is missing or not zero");
    }
    offset += padded;
  }
  if (bytes.size() - offset < 2 * kBlockBytes || !is_zero(bytes.subspan(offset))) {
    return corrupt(offset, "the archive does not end with at least two empty blocks");
  }
  std::ranges::sort(archive.entries_, {}, &Entry::path);
  const auto twice = std::ranges::adjacent_find(archive.entries_, {}, &Entry::path);
  if (twice != archive.entries_.end()) {
    return Status(Code::kCorrupt, "archive: '" + twice->path + "' appears twice");
  }
  return archive;
}

const Archive::Entry* Archive::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(entries_, path, {}, &Entry::path);
  return found != entries_.end() && found->path == path ? &*found : nullptr;
}

}  // namespace edgepipe
