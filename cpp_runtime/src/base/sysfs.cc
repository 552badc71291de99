#include "base/sysfs.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/open_failure.h"

namespace edgepipe {

Result<std::vector<std::filesystem::path>> list_folder(const std::string& path) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    entries.push_back(entry.path());
  }
  if (is_too_many_files(error.value())) return open_failure(Code::kNotFound, path, error.value());
  return entries;
}

Result<std::string> read_attribute(const std::string& path) {
  std::ifstream file(path);
  if (!file && is_too_many_files(errno)) return open_failure(Code::kNotFound, path, errno);
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
