// MappedFile: a private copy of a whole file, in its own memory, mapped read-only.
//
//   Result<MappedFile> file = MappedFile::open(folder / "weights.bin");
//   std::span<const std::byte> content = file->bytes();
//
// A mapping of the file itself would end the process (SIGBUS) if the file were truncated, and could
// change after its digest was checked.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

class MappedFile {
 public:
  /// Copies a regular file, page-aligned. kNotFound if there is none, kInvalidArgument if it is not
  /// a regular file or cannot be read, kCorrupt if it becomes shorter meanwhile.
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
