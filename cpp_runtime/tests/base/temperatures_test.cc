#include "base/temperatures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace edgepipe {
namespace {

TEST(Temperatures, AreThoseOfZonesTheZynqAndHwmon) {
  const std::filesystem::path system = std::filesystem::path(::testing::TempDir()) / "sys";
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((system / name).parent_path());
    std::ofstream(system / name) << text << "\n";
  };
  write("class/thermal/thermal_zone0/temp", "48250");
  write("class/thermal/thermal_zone0/type", "cpu");
  write("class/thermal/cooling_device0/cur_state", "0");
  write("bus/iio/devices/iio:device0/name", "ams");
  write("bus/iio/devices/iio:device0/in_temp0_raw", "42000");
  write("bus/iio/devices/iio:device0/in_temp0_offset", "-36058");
  write("bus/iio/devices/iio:device0/in_temp0_scale", "7.771514892");
  write("class/hwmon/hwmon1/name", "pmic");
  write("class/hwmon/hwmon1/temp1_input", "39000");
  write("class/hwmon/hwmon1/temp2_input", "not a number");
  const std::vector<Temperature> found = read_temperatures(system);
  std::filesystem::remove_all(system);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].sensor, "thermal_zone0");
  EXPECT_EQ(found[0].type, "cpu");
  EXPECT_DOUBLE_EQ(found[0].celsius, 48.25);
  EXPECT_EQ(found[1].sensor, "iio:device0/in_temp0");
  EXPECT_NEAR(found[1].celsius, 46.18, 0.01);
  EXPECT_EQ(found[2].sensor, "hwmon1/temp1");
  EXPECT_EQ(found[2].type, "pmic");
  EXPECT_TRUE(read_temperatures("/none").empty());
}

}  // namespace
}  // namespace edgepipe
