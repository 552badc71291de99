// BundleFiles: the files of a bundle (a folder or an archive), read-only.
//
//   Result<BundleFiles> files = BundleFiles::open("nanodet.edgepipe");
//   Result<std::span<const std::byte>> text = files->content("manifest.json");
//
// Contents are private copies (mapped_file.h), valid for the lifetime of the object. Immutable and
// therefore thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "edgepipe/status.h"

namespace edgepipe {

class BundleFiles {
 public:
  /// Maps everything. kNotFound if there is nothing at `path`, kCorrupt for a damaged archive or
  /// a folder with links or other special files.
  static Result<BundleFiles> open(const std::filesystem::path& path);

  /// The content of a file; kNotFound names it.
  [[nodiscard]] Result<std::span<const std::byte>> content(std::string_view path) const;

  /// All paths, sorted.
  [[nodiscard]] std::vector<std::string> paths() const;

 private:
  BundleFiles() = default;
  Status map_folder(const std::filesystem::path& folder);
  Status map_archive(const std::filesystem::path& path);

  std::vector<MappedFile> mapped_;
  std::map<std::string, std::span<const std::byte>, std::less<>> contents_;
};

}  // namespace edgepipe
