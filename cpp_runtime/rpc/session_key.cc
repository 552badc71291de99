#include "session_key.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace edgepipe::rpc {

// libstdc++'s random_device reads the processor's generator or /dev/urandom; it throws if it
// cannot.
std::string random_key() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kWords = 4;
  std::random_device source("/dev/urandom");
  std::string key;
  for (int word = 0; word < kWords; ++word) {
    const std::uint32_t bits = source();
    for (int shift = 28; shift >= 0; shift -= 4) key += kDigits[(bits >> shift) & 0xFU];
  }
  return key;
}

}  // namespace edgepipe::rpc
