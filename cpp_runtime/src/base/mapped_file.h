// MappedFile: a whole file, mapped read-only for the lifetime of the object.
//
//   Result<MappedFile> file = MappedFile::open(folder / "weights.bin");
//   std::span<const std::byte> content = file->bytes();
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

class MappedFile {
 public:
  /// Maps a regular file. kNotFound if there is none, kInvalidArgument if it is not a regular file
  /// or cannot be read. The file must not be truncated while mapped; edgepipe replaces files and
  /// never rewrites them.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace edgepipe
