#include "base/url_text.h"

#include <algorithm>
#include <string_view>

namespace edgepipe {

std::string without_password(const std::string& url) {
  constexpr std::string_view kAfterScheme = "://";
  const std::size_t scheme = url.find(kAfterScheme);
  if (scheme == std::string::npos) return url;
  const std::size_t host = scheme + kAfterScheme.size();
  const std::size_t end = std::min(url.find_first_of("/?#", host), url.size());
  const std::size_t at = url.rfind('@', end);
  if (at == std::string::npos || at < host) return url;
  return url.substr(0, host) + url.substr(at + 1);
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  if (part.empty()) return text;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + by.size())) {
    text.replace(at, part.size(), by);
  }
  return text;
}

}  // namespace edgepipe
