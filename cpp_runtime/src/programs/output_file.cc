#include "programs/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/open_failure.h"
#include "base/seconds_text.h"
#include "edgepipe/sync.h"
#include "programs/interruption.h"

namespace edgepipe::programs {
namespace {

constexpr std::chrono::milliseconds kLookInterval{500};  // the time of the request to end
constexpr std::chrono::milliseconds kReaderPatience{5000};
constexpr Clock::time_point kNever = Clock::time_point::max();

bool is_regular(const FileDescriptor& file) {
  struct stat found {};
  return ::fstat(file.number(), &found) == 0 && S_ISREG(found.st_mode);
}

/// What to do about a failed write.
std::string advice(int error) {
  return error == ENOSPC || error == EDQUOT ? "free some space, or write to another disk" : "";
}

}  // namespace

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
  const std::string shown = name == "-" ? "standard output" : name;
  // A pipe with room takes PIPE_BUF bytes without blocking (pipe(7)), so that a signal just before
  // the write is not overlooked. O_NONBLOCK would also change the file for other programs.
  const std::size_t most_at_once = is_regular(file) ? bytes.size() : PIPE_BUF;
  Clock::time_point give_up = kNever;
  while (!bytes.empty()) {
    pollfd events{.fd = file.number(), .events = POLLOUT, .revents = 0};
    if (::poll(&events, 1, static_cast<int>(kLookInterval.count())) > 0) {
      const ssize_t count =
          ::write(file.number(), bytes.data(), std::min(bytes.size(), most_at_once));
      if (count >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
        give_up = kNever;
        continue;
      }
      if (const int error = errno; error != EINTR && error != EAGAIN) {
        return Status(Code::kInvalidArgument,
                      shown + ": cannot be written: " + std::generic_category().message(error),
                      advice(error));
      }
    }
    if (!interrupted) continue;
    const Clock::time_point now = Clock::now();
    if (give_up == kNever) give_up = now + kReaderPatience;
    if (now >= give_up) {
      return Status(Code::kInvalidArgument, shown + ": nobody has read it for " +
                                                seconds_text(kReaderPatience) +
                                                " since the request to end");
    }
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  Result<FileDescriptor> file = create_file(path.string());
  if (!file.ok()) return file.status();
  Status status = write_all(*file, bytes, path.string());
  std::error_code ignored;
  if (!status.ok()) std::filesystem::remove(path, ignored);
  return status;
}

}  // namespace edgepipe::programs
