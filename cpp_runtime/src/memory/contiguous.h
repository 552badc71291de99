// The largest contiguous buffer that a driver has: asked for, then half as much, and so on.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// Calls `allocate(bytes)`, which is false with errno, with `most` bytes and then ever fewer.
/// kOutOfMemory when not even `least` are there, kDevice when the driver refuses for another
/// reason.
template <typename Allocate>
Status allocate_contiguous(std::size_t most, std::size_t least, const std::string& device,
                           const char* request, const Allocate& allocate) {
  std::size_t bytes = most;
  while (!allocate(bytes)) {
    if (errno != ENOMEM) {
      return {Code::kDevice, "memory: " + device + ": " + request + ": " + std::strerror(errno)};
    }
    if (bytes / 2 < least) {
      return {Code::kOutOfMemory, "memory: " + device + ": " + std::to_string(bytes) +
                                      " contiguous bytes wanted, CMA has none so large; boot with "
                                      "a larger cma= on the kernel's command line"};
    }
    bytes /= 2;
  }
  return {};
}

}  // namespace edgepipe
