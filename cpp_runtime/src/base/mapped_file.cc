#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/open_failure.h"

namespace edgepipe {
namespace {

std::string reason() { return std::generic_category().message(errno); }

/// Fills `bytes` from the start of a file. False with errno; 0 if the file ends earlier.
bool read_all(int file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = 0;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO is refused below, instead of blocking here.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    const int error = errno;
    if (error == ENOENT) return Status(Code::kNotFound, path.string() + ": no such file");
    return open_failure(Code::kInvalidArgument, path.string() + ": cannot be opened", error);
  }
  struct stat information {};
  if (::fstat(file.number(), &information) != 0 || !S_ISREG(information.st_mode)) {
    return Status(Code::kInvalidArgument, path.string() + ": not a regular file");
  }
  if (information.st_size == 0) return MappedFile({});
  const auto bytes = static_cast<std::size_t>(information.st_size);
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kOutOfMemory,
                  path.string() + ": no memory for its " + std::to_string(bytes) + " bytes");
  }
  MappedFile copy({static_cast<const std::byte*>(data), bytes});
  if (!read_all(file.number(), {static_cast<std::byte*>(data), bytes})) {
    if (errno != 0) {
      return Status(Code::kInvalidArgument, path.string() + ": cannot be read: " + reason());
    }
    return Status(Code::kCorrupt, path.string() + ": became shorter while it was read",
                  "wait until the program that writes it has finished");
  }
  ::mprotect(data, bytes, PROT_READ);  // a stray write then fails where it happens
  return copy;
}

MappedFile::~MappedFile() {
  // munmap takes a non-const pointer, although it does not change the contents.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace edgepipe
