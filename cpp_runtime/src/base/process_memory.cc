#include "base/process_memory.h"

#include <charconv>
#include <fstream>
#include <string_view>

namespace edgepipe {

Result<std::uint64_t> peak_resident_bytes(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, path + ": cannot be read");
  // A line such as "VmHWM:     1234 kB".
  constexpr std::string_view kKey = "VmHWM:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", kKey.size());
    if (begin == std::string::npos) break;
    std::uint64_t kibibytes = 0;
    const auto [end, error] =
        std::from_chars(line.data() + begin, line.data() + line.size(), kibibytes);
    if (error != std::errc() || std::string_view(end) != " kB" || kibibytes > UINT64_MAX / 1024) {
      break;
    }
    return kibibytes * 1024;
  }
  return Status(Code::kCorrupt, path + ": expected a line with VmHWM in kB");
}

}  // namespace edgepipe
