// Two questions that TVM's runtime asks about texts; TVM's wheels lack this header.
#pragma once

#include <string>
#include <string_view>

namespace tvm::support {

inline bool StartsWith(const std::string& text, std::string_view prefix) {
  return text.starts_with(prefix);
}

inline bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace tvm::support
