#include "base/temperatures.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace edgepipe {
namespace {

std::optional<double> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::string read_word(const std::filesystem::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

/// The entries of a folder of `/sys` by name; none if it is missing.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

bool is_between(std::string_view name, std::string_view start, std::string_view end) {
  return name.size() >= start.size() + end.size() && name.starts_with(start) && name.ends_with(end);
}

}  // namespace

std::vector<Temperature> read_temperatures(const std::filesystem::path& system) {
  std::vector<Temperature> found;
  for (const std::filesystem::path& zone : entries(system / "class/thermal")) {
    const std::optional<double> value = read_number(zone / "temp");  // millidegrees
    if (value) found.push_back({zone.filename(), read_word(zone / "type"), *value / 1e3});
  }
  // The Zynq's own sensors: millidegrees are (raw + offset) * scale.
  for (const std::filesystem::path& device : entries(system / "bus/iio/devices")) {
    for (const std::filesystem::path& file : entries(device)) {
      const std::string name = file.filename();
      if (!is_between(name, "in_temp", "_raw")) continue;
      const std::string stem = name.substr(0, name.size() - 4);
      const std::optional<double> raw = read_number(file);
      if (!raw) continue;
      const double offset = read_number(device / (stem + "_offset")).value_or(0);
      const double scale = read_number(device / (stem + "_scale")).value_or(1);
      found.push_back({device.filename().string() + "/" + stem, read_word(device / "name"),
                       (*raw + offset) * scale / 1e3});
    }
  }
  for (const std::filesystem::path& device : entries(system / "class/hwmon")) {
    for (const std::filesystem::path& file : entries(device)) {
      const std::string name = file.filename();
      if (!is_between(name, "temp", "_input")) continue;
      const std::optional<double> value = read_number(file);
      if (!value) continue;
      found.push_back({device.filename().string() + "/" + name.substr(0, name.size() - 6),
                       read_word(device / "name"), *value / 1e3});
    }
  }
  return found;
}

}  // namespace edgepipe
