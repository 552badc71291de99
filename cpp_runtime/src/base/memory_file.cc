#include "base/memory_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/open_failure.h"

namespace edgepipe {

Result<FileDescriptor> memory_file(const std::string& name, std::span<const std::byte> content) {
  // Looked up first, because a write beyond the limit would end the process with SIGXFSZ.
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  if (content.size() > limit.rlim_cur) {
    return Status(Code::kOutOfMemory,
                  name + ": " + std::to_string(content.size()) +
                      " bytes, this process may write files of at most " +
                      std::to_string(limit.rlim_cur),
                  "raise the limit: ulimit -f, or LimitFSIZE= of a unit");
  }
  FileDescriptor file(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kOutOfMemory, name, errno);
  while (!content.empty()) {
    const ssize_t count = ::write(file.number(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Status(Code::kOutOfMemory, name + ": " + std::generic_category().message(errno));
    }
    content = content.subspan(static_cast<std::size_t>(count));
  }
  ::lseek(file.number(), 0, SEEK_SET);
  return file;
}

}  // namespace edgepipe
