#include "base/sysfs.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace edgepipe {

Result<std::string> read_attribute(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return Status(Code::kNotFound, path + ": cannot be read");
  }
  return line;
}

Result<std::uint64_t> read_number(const std::string& path) {
  Result<std::string> text = read_attribute(path);
  if (!text.ok()) return text.status();
  char* end = nullptr;
  errno = 0;
  const std::uint64_t value = std::strtoull(text->c_str(), &end, 0);
  if (text->empty() || *end != '\0' || errno != 0) {
    return Status(Code::kCorrupt, path + ": found '" + *text + "', expected a number");
  }
  return value;
}

}  // namespace edgepipe
