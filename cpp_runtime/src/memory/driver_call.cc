#include "memory/driver_call.h"

#include <sys/ioctl.h>

#include <cerrno>

namespace edgepipe {

int call_driver(int file, unsigned long request, void* argument) {
  int result = 0;
  do {
    result = ::ioctl(file, request, argument);
  } while (result < 0 && (errno == EINTR || errno == EAGAIN));
  return result;
}

}  // namespace edgepipe
