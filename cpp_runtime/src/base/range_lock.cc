#include "base/range_lock.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace edgepipe {
namespace {

// The kernel's struct for offsets of 64 bits. glibc's fcntl on 32-bit machines converts the smaller
// one, and before glibc 2.28 not for these commands, so the kernel is called without it.
int call(int file, int command, struct flock64& lock) {
#ifdef SYS_fcntl64
  return static_cast<int>(::syscall(SYS_fcntl64, file, command, &lock));
#else
  return static_cast<int>(::syscall(SYS_fcntl, file, command, &lock));
#endif
}

struct flock64 described(short type, const FileRange& range) {
  struct flock64 lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off64_t>(range.first);
  lock.l_len = static_cast<off64_t>(range.bytes);
  return lock;  // l_pid must be 0 for locks of descriptions
}

Status refused() {
  return {Code::kDevice, std::string("the kernel refuses a lock: ") + std::strerror(errno)};
}

}  // namespace

Result<bool> lock_range(int file, const FileRange& range) {
  struct flock64 lock = described(F_WRLCK, range);
  if (call(file, F_OFD_SETLK, lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return refused();
}

Status await_range(int file, const FileRange& range) {
  struct flock64 lock = described(F_WRLCK, range);
  while (call(file, F_OFD_SETLKW, lock) != 0) {
    if (errno != EINTR) return refused();
  }
  return {};
}

void unlock_range(int file, const FileRange& range) {
  struct flock64 lock = described(F_UNLCK, range);
  call(file, F_OFD_SETLK, lock);
}

std::optional<FileRange> locked_by_others(int file, const FileRange& range) {
  struct flock64 lock = described(F_WRLCK, range);
  if (call(file, F_OFD_GETLK, lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  const auto first = static_cast<std::uint64_t>(lock.l_start);
  const std::uint64_t to_the_end = INT64_MAX - first;  // which the kernel writes as 0 bytes
  return FileRange{.first = first,
                   .bytes = lock.l_len == 0 ? to_the_end : static_cast<std::uint64_t>(lock.l_len)};
}

}  // namespace edgepipe
