#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/file_descriptor.h"

namespace edgepipe {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    const int error = errno;
    if (error == ENOENT) return Status(Code::kNotFound, path.string() + ": no such file");
    return Status(Code::kInvalidArgument,
                  path.string() + ": cannot be opened: " + std::generic_category().message(error));
  }
  struct stat information {};
  if (::fstat(file.number(), &information) != 0 || !S_ISREG(information.st_mode)) {
    return Status(Code::kInvalidArgument, path.string() + ": not a regular file");
  }
  if (information.st_size == 0) return MappedFile({});
  const auto bytes = static_cast<std::size_t>(information.st_size);
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) {
    return Status(Code::kInvalidArgument,
                  path.string() + ": cannot be mapped: " + std::generic_category().message(errno));
  }
  return MappedFile({static_cast<const std::byte*>(data), bytes});
}

MappedFile::~MappedFile() {
  // munmap takes a non-const pointer, although it does not change the contents.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace edgepipe
