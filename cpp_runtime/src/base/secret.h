// equal_secrets: compares a password or key with the right one.
//
//   if (!equal_secrets(given, expected)) refuse();
#pragma once

#include <cstddef>
#include <string_view>

namespace edgepipe {

/// Whether two secrets are equal. The time taken depends on their lengths alone, so that it does
/// not tell how much of a guess is right. Any thread.
inline bool equal_secrets(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  // volatile: the compiler must not stop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    difference = static_cast<unsigned char>(difference | (one[at] ^ other[at]));
  }
  return difference == 0;
}

}  // namespace edgepipe
