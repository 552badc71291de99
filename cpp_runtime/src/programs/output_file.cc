#include "programs/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/open_failure.h"

namespace edgepipe::programs {

Result<FileDescriptor> create_file(const std::string& name) {
  constexpr mode_t kMode = 0666;
  FileDescriptor file(name == "-"
                          ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                          : ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (file.valid()) return file;
  return open_failure(Code::kInvalidArgument,
                      (name == "-" ? "standard output" : name) + ": cannot be created", errno,
                      "check the folder, its permissions and the free space");
}

Status write_all(const FileDescriptor& file, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.number(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // a terminal or pipe that another program made non-blocking
      pollfd events{.fd = file.number(), .events = POLLOUT, .revents = 0};
      ::poll(&events, 1, -1);
    } else if (errno != EINTR) {
      return Status(Code::kInvalidArgument,
                    (name == "-" ? "standard output" : name) +
                        ": cannot be written: " + std::generic_category().message(errno));
    }
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  Result<FileDescriptor> file = create_file(path.string());
  if (!file.ok()) return file.status();
  Status status = write_all(*file, bytes, path.string());
  if (!status.ok()) std::filesystem::remove(path);
  return status;
}

}  // namespace edgepipe::programs
