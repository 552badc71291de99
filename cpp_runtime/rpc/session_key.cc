#include "session_key.h"

#include <cstddef>
#include <cstdint>
#include <random>

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

bool equal_keys(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned char difference = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    difference = static_cast<unsigned char>(difference | (one[at] ^ other[at]));
  }
  return difference == 0;
}

}  // namespace edgepipe::rpc
