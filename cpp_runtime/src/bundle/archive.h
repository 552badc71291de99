// Archive: the files of an uncompressed ustar archive (POSIX.1-1988) in memory.
//
//   Result<Archive> archive = Archive::parse(mapped.bytes());
//   const Archive::Entry* entry = archive->find("manifest.json");
//
// Supports only what a bundle needs: regular files and folders with relative paths. It refuses
// anything else (links, devices, pax and GNU extensions, absolute paths, "..", repeated paths) and
// archives with wrong checksums, sizes or end marks. No input makes the parser read out of bounds.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

class Archive {
 public:
  struct Entry {
    std::string path;
    std::span<const std::byte> content;  // borrowed from the bytes given to parse()
  };

  /// Reads the directory of an archive; contents stay where they are. kCorrupt names the offset.
  static Result<Archive> parse(std::span<const std::byte> bytes);

  /// The regular files, sorted by path.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// The file at exactly this path, or nullptr.
  [[nodiscard]] const Entry* find(std::string_view path) const;

 private:
  std::vector<Entry> entries_;
};

/// True for a relative path of plain components: no empty component, no "." or "..", no leading
/// slash, no control characters. All paths inside a bundle are plain.
bool is_plain_path(std::string_view path);

}  // namespace edgepipe
