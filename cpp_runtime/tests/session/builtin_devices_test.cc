#include "session/builtin_devices.h"

#include <gtest/gtest.h>

#include <chrono>

#include "support/emulated_fpga.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const DeviceRequest kFirst{
    .accelerator = {}, .indices = {0}, .argument = {}, .memory_bytes = 0, .faults = {}};

/// The default time limit of a program on the devices of a group.
milliseconds limit(const DeviceGroup& group, milliseconds modelled_time) {
  return DeviceSet{.devices = {}, .least_time_limit = group.least_time_limit}.limit_for(
      modelled_time);
}

TEST(OpenBoard, TimeLimitsOfAnFpgaAreAtLeastASecond) {
  testing::EmulatedFpga fpga;
  UioOptions board = fpga.options();
  board.reset = "none";  // only the virtual board has this device
  const Result<DeviceGroup> group = open_board(kFirst, board);
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ(group->devices.size(), 1U);
  EXPECT_EQ(limit(*group, milliseconds(3)), seconds(1));
  EXPECT_EQ(limit(*group, milliseconds(100)), seconds(2));
  EXPECT_EQ(limit(*group, milliseconds(0)), seconds(10)) << "not modelled";
}

TEST(OpenBoard, TimeLimitsOfTheVirtualBoardAreAtLeastTenSeconds) {
  testing::EmulatedFpga fpga;
  const Result<DeviceGroup> group = open_board(kFirst, fpga.options());
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ(limit(*group, milliseconds(3)), seconds(10));
  EXPECT_EQ(limit(*group, milliseconds(1000)), seconds(20));
}

}  // namespace
}  // namespace edgepipe
