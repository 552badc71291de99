// V4l2Calls: the system calls that a camera needs, so that tests can replace the kernel.
#pragma once

#include <cstddef>

namespace edgepipe {

/// Every function is the system call of that name, errors in errno. Stateless, for any thread.
class V4l2Calls {
 public:
  virtual ~V4l2Calls() = default;
  virtual int open(const char* path);
  virtual int close(int file);
  virtual int ioctl(int file, unsigned long request, void* argument);
  virtual void* map(int file, std::size_t bytes, unsigned offset);
  virtual void unmap(void* address, std::size_t bytes);

  /// Waits for a picture: positive if DQBUF will not block, 0 after `timeout_ms`, -1 for an error,
  /// including a missing device.
  virtual int wait(int file, int timeout_ms);

  /// The real system calls; valid for the lifetime of the process.
  static V4l2Calls& kernel();
};

}  // namespace edgepipe
