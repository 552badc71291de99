// The largest contiguous buffer that a driver can allocate, found by halving the size.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// Calls `allocate(bytes)`, which returns false and sets errno on failure, with `most` bytes and
/// then with fewer and fewer. kOutOfMemory if not even `least` bytes are available, kDevice if the
/// driver refuses for another reason.
template <typename Allocate>
Status allocate_contiguous(std::size_t most, std::size_t least, const std::string& device,
                           const char* request, const Allocate& allocate) {
  std::size_t bytes = most;
  while (!allocate(bytes)) {
    if (errno != ENOMEM) {
      return {Code::kDevice, "memory: " + device + ": " + request + ": " + std::strerror(errno)};
    }
    if (bytes / 2 < least) {
      return {Code::kOutOfMemory,
              "memory: " + device + ": " + std::to_string(bytes) +
                  " contiguous bytes wanted, but CMA has no such block",
              "boot with a larger cma= on the kernel's command line"};
    }
    bytes /= 2;
  }
  return {};
}

}  // namespace edgepipe
