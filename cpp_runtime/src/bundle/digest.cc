#include "bundle/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace edgepipe {

std::string xxh3_128(std::span<const std::byte> content) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(content.data(), content.size()));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace edgepipe
