#include "base/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/open_failure.h"

namespace edgepipe {

Result<SharedMapping> SharedMapping::open(const std::string& path, const Options& options) {
  const FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | (options.uncached ? O_SYNC : 0)));
  if (!file.valid()) return open_failure(Code::kNotFound, path, errno);
  std::size_t bytes = options.bytes;
  struct stat found {};
  if (::fstat(file.number(), &found) == 0 && S_ISREG(found.st_mode)) {
    // A mapping beyond the end of a file succeeds, but accessing it kills the process.
    const auto most = found.st_size - options.offset;
    if (bytes == 0 && most > 0) bytes = static_cast<std::size_t>(most);
    if (most <= 0 || bytes > static_cast<std::size_t>(most)) {
      return Status(Code::kInvalidArgument,
                    path + ": " + std::to_string(options.offset + static_cast<off_t>(bytes)) +
                        " bytes wanted, the file has " + std::to_string(found.st_size));
    }
  }
  return map(file.number(), static_cast<std::uint64_t>(options.offset), bytes, path);
}

Result<SharedMapping> SharedMapping::map(int file, std::uint64_t offset, std::size_t bytes,
                                         const std::string& name) {
  void* data = ::mmap64(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                        static_cast<off64_t>(offset));
  if (data == MAP_FAILED) {
    return Status(Code::kInvalidArgument, name + ": " + std::to_string(bytes) +
                                              " bytes cannot be mapped: " + std::strerror(errno));
  }
  return SharedMapping(std::span(static_cast<std::byte*>(data), bytes));
}

SharedMapping::~SharedMapping() {
  if (bytes_.data() != nullptr) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace edgepipe
