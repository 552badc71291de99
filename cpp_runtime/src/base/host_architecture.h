// host_architecture: this machine's architecture, as bundles name it.
#pragma once

#include <string_view>

namespace edgepipe {

/// "x86_64", "aarch64", "armhf", or "unknown" for any other.
constexpr std::string_view host_architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__arm__)
  return "armhf";
#else
  return "unknown";
#endif
}

}  // namespace edgepipe
