// What the kernel's sensors measure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace edgepipe {

/// A sensor of the kernel, such as "thermal_zone0" of type "cpu-thermal".
struct Temperature {
  std::string sensor;
  std::string type;
  double celsius = 0;
};

/// The temperatures that the kernel shows below `system`: thermal zones, the Zynq's own sensors and
/// hwmon; empty if it shows none. Blocks while a slow sensor measures.
std::vector<Temperature> read_temperatures(const std::filesystem::path& system = "/sys");

}  // namespace edgepipe
