#include "bundle/bundle_files.h"

#include <system_error>
#include <utility>

#include "base/open_failure.h"
#include "bundle/archive.h"

namespace edgepipe {
namespace fs = std::filesystem;

Result<BundleFiles> BundleFiles::open(const fs::path& path) {
  BundleFiles files;
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  Status status;
  if (!fs::exists(found)) {
    status =
        Status(Code::kNotFound, "no such bundle", "check the name; `edgepipe build` makes bundles");
  } else {
    status = fs::is_directory(found) ? files.map_folder(path) : files.map_archive(path);
  }
  if (!status.ok()) return status.with_context(path.string());
  return files;
}

Status BundleFiles::map_folder(const fs::path& folder) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::file_status found = entry->symlink_status(error);
    if (error) break;
    if (fs::is_directory(found)) continue;
    const std::string name = entry->path().lexically_relative(folder).generic_string();
    if (!fs::is_regular_file(found)) {
      return Status(Code::kCorrupt, name + " is neither a regular file nor a folder");
    }
    Result<MappedFile> file = MappedFile::open(entry->path());
    if (!file.ok()) return file.status();
    contents_.emplace(name, file->bytes());
    mapped_.push_back(std::move(*file));
  }
  if (error) return open_failure(Code::kInvalidArgument, "cannot be listed", error.value());
  return {};
}

Status BundleFiles::map_archive(const fs::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  Result<Archive> archive = Archive::parse(file->bytes());
  if (!archive.ok()) return archive.status();
  for (const Archive::Entry& entry : archive->entries()) {
    contents_.emplace(entry.path, entry.content);
  }
  mapped_.push_back(std::move(*file));
  return {};
}

Result<std::span<const std::byte>> BundleFiles::content(std::string_view path) const {
  const auto found = contents_.find(path);
  if (found == contents_.end()) {
    return Status(Code::kNotFound, std::string(path) + " is missing from the bundle");
  }
  return found->second;
}

std::vector<std::string> BundleFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, content] : contents_) paths.push_back(path);
  return paths;
}

}  // namespace edgepipe
