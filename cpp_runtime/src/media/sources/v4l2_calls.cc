#include "media/sources/v4l2_calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace edgepipe {

int V4l2Calls::open(const char* path) { return ::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); }

int V4l2Calls::close(int file) { return ::close(file); }

int V4l2Calls::ioctl(int file, unsigned long request, void* argument) {
  int result = 0;
  do {
    result = ::ioctl(file, request, argument);
  } while (result < 0 && errno == EINTR);
  return result;
}

void* V4l2Calls::map(int file, std::size_t bytes, unsigned offset) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
}

void V4l2Calls::unmap(void* address, std::size_t bytes) { ::munmap(address, bytes); }

int V4l2Calls::wait(int file, int timeout_ms) {
  pollfd events{.fd = file, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&events, 1, timeout_ms);
  if (ready < 0) return errno == EINTR ? 0 : -1;
  if (ready > 0 && (events.revents & POLLIN) == 0) {  // POLLERR, POLLHUP: unplugged
    errno = ENODEV;
    return -1;
  }
  return ready;
}

V4l2Calls& V4l2Calls::kernel() {
  static V4l2Calls calls;
  return calls;
}

}  // namespace edgepipe
