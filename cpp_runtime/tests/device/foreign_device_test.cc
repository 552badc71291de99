// Devices behind libraries with the functions of vta/driver.h.
#include "device/foreign_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <vector>

#include "edgepipe/conformance/product_program.h"
#include "edgepipe/instruction.h"
#include "support/foreign_test_driver.h"

namespace edgepipe {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<Device> open(const char* revision) {
  Result<std::unique_ptr<Device>> device = testing::open_test_driver(revision);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return *std::move(device);
}

class ForeignDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignDevice, SaysWhatTheDriverGaveForAProgramThatFails) {
  const auto device = open(GetParam());
  const Buffer program = *device->memory().allocate(sizeof(InstructionWord));
  const Status status = device->run({.address = program.device_address(), .count = 1});
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("VTADeviceRun of 1 instructions at"));
  EXPECT_THAT(status.message(), HasSubstr("gave 1, expected 0"));
}

INSTANTIATE_TEST_SUITE_P(Revisions, ForeignDevice, ::testing::Values("0.0.1", "0.0.2"),
                         [](const auto& revision) {
                           return std::string(revision.param) == "0.0.1" ? "First" : "Second";
                         });

// vta_phy_addr_t has 32 bits: without the check, the driver would run the program at the address
// that is left of a longer one.
TEST_P(ForeignDevice, GivesTheDriverNoAddressOutsideItsMemory) {
  const auto device = open(GetParam());
  conformance::ProductProgram program(*device);
  ASSERT_TRUE(program.run().ok());
  Submission submission = program.submission();
  submission.address += std::uint64_t{1} << 32;
  const Status status = device->run(submission);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("instructions: memory: "));
  EXPECT_THAT(status.message(), HasSubstr("are not in any allocation"));
}

// The driver rounds allocations up to pages, so it would copy what lies behind one.
TEST_P(ForeignDevice, CopiesNothingFromOutsideAnAllocation) {
  const auto device = open(GetParam());
  DeviceMemory& memory = device->memory();
  const Buffer buffer = *memory.allocate(100);
  std::vector<std::byte> longer(101, std::byte{7});
  const BufferView view{
      .data = longer.data(), .device_address = buffer.device_address(), .bytes = longer.size()};
  memory.flush(view);
  memory.invalidate(view);
  EXPECT_THAT(longer, Each(std::byte{7})) << "invalidate copied from behind the allocation";
  memory.invalidate(buffer.view());
  EXPECT_THAT(std::span(buffer.data(), buffer.bytes()), Each(std::byte{0}))
      << "flush copied behind the allocation";
}

TEST(ForeignDriver, SaysHowMuchMemoryTheDriverDidNotGive) {
  const auto device = open("0.0.1");
  EXPECT_THAT(device->memory().allocate(std::size_t{1} << 29).status().message(),
              HasSubstr("VTAMemAlloc of 536870912 bytes failed"));
}

TEST(ForeignDriver, NamesEveryFunctionThatALibraryLacks) {
  const Status status = open_foreign_device({}, EDGEPIPE_TEST_INCOMPLETE_DRIVER).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(
      status.message(),
      HasSubstr("missing functions: VTAFlushCache, VTAInvalidateCache, VTADeviceRun, expected all "
                "functions of vta/driver.h"));
}

TEST(ForeignDriver, SaysWhichLibraryCannotBeLoadedAndWhichGivesNoDevice) {
  EXPECT_THAT(open_foreign_device({}, "missing/libvta.so").status().message(),
              HasSubstr("driver missing/libvta.so: cannot be loaded: "));
  unsetenv("EDGEPIPE_TEST_ACCELERATOR");
  EXPECT_THAT(open_foreign_device({}, EDGEPIPE_TEST_DRIVER).status().message(),
              HasSubstr("VTADeviceAlloc returned no device"));
}

}  // namespace
}  // namespace edgepipe
