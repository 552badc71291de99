#include "base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/open_failure.h"

namespace edgepipe {

Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t most_bytes,
                                     const std::string& advice) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.number(), &about) != 0) {
    return open_failure(Code::kNotFound, path.string(), errno, advice);
  }
  if (!S_ISREG(about.st_mode)) {
    return Status(Code::kInvalidArgument, path.string() + ": not a regular file", advice);
  }
  if ((about.st_mode & S_IRWXO) != 0) {
    return Status(Code::kInvalidArgument,
                  path.string() + ": every user of this machine can read or write this secret",
                  "run `chmod o= " + path.string() + "`");
  }
  std::string content(most_bytes, '\0');
  const ssize_t bytes = ::read(file.number(), content.data(), content.size());
  if (bytes < 0) {
    return Status(Code::kNotFound, path.string() + ": " + std::generic_category().message(errno));
  }
  content.resize(static_cast<std::size_t>(bytes));
  return content;
}

}  // namespace edgepipe
