#include "base/process_memory.h"

#include <charconv>
#include <fstream>
#include <string_view>

namespace edgepipe {

namespace {

/// The bytes in a line of /proc/PID/status such as "VmHWM:     1234 kB"; `key` ends with a colon.
Result<std::uint64_t> status_bytes(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, path + ": cannot be read");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", key.size());
    if (begin == std::string::npos) break;
    std::uint64_t kibibytes = 0;
    const auto [end, error] =
        std::from_chars(line.data() + begin, line.data() + line.size(), kibibytes);
    if (error != std::errc() || std::string_view(end) != " kB" || kibibytes > UINT64_MAX / 1024) {
      break;
    }
    return kibibytes * 1024;
  }
  return Status(Code::kCorrupt, path + ": expected a line with " +
                                    std::string(key.substr(0, key.size() - 1)) + " in kB");
}

}  // namespace

Result<std::uint64_t> peak_resident_bytes(const std::string& path) {
  return status_bytes(path, "VmHWM:");
}

Result<std::uint64_t> resident_bytes(const std::string& path) {
  return status_bytes(path, "VmRSS:");
}

}  // namespace edgepipe
