// Devices behind libraries with the functions of vta/driver.h.
#include "device/foreign_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "edgepipe/conformance/product_program.h"
#include "edgepipe/instruction.h"
#include "support/bundle_test_files.h"
#include "support/foreign_test_driver.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<Device> open(const char* revision) {
  Result<std::unique_ptr<Device>> device = testing::open_test_driver(revision);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return *std::move(device);
}

/// Runs of the test driver's devices do not return before the gate is open.
class GatedRuns {
 public:
  GatedRuns() { ::setenv("EDGEPIPE_TEST_GATE", file_.c_str(), 1); }
  ~GatedRuns() { open(); }
  GatedRuns(const GatedRuns&) = delete;
  GatedRuns& operator=(const GatedRuns&) = delete;

  void open() {
    ::unsetenv("EDGEPIPE_TEST_GATE");
    std::ofstream(file_).put('\n');
  }

 private:
  testing::ScratchFolder folder_;
  std::string file_ = folder_.path() / "open";
};

class ForeignDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignDevice, SaysWhatTheDriverGaveForARunThatFails) {
  const auto device = open(GetParam());
  conformance::ProductProgram program(*device);
  ::setenv("EDGEPIPE_TEST_BROKEN", "1", 1);
  const Status status = program.run();
  ::unsetenv("EDGEPIPE_TEST_BROKEN");
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("VTADeviceRun of 7 instructions at"));
  EXPECT_THAT(status.message(), HasSubstr("gave 1, expected 0"));
  EXPECT_TRUE(program.run().ok());
}

TEST_P(ForeignDevice, ARunThatRunsOutOfMemoryFailsLikeOthers) {
  const auto device = open(GetParam());
  conformance::ProductProgram program(*device);
  ::setenv("EDGEPIPE_TEST_STARVED", "1", 1);
  const Status status = program.run();
  ::unsetenv("EDGEPIPE_TEST_STARVED");
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("gave 12, expected 0"));
  EXPECT_TRUE(program.run().ok());
}

TEST_P(ForeignDevice, ARunThatDoesNotReturnInTimeEndsAtItsLimit) {
  const auto device = open(GetParam());
  conformance::ProductProgram program(*device);
  program.fill(1);
  program.write();
  Submission submission = program.submission();
  submission.time_limit = 30ms;
  GatedRuns gate;
  const Status late = program.run_written(submission);  // returns although the library does not
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_THAT(late.message(), HasSubstr("VTADeviceRun of 7 instructions at"));
  EXPECT_THAT(late.message(), HasSubstr("has not returned in time"));

  submission.turn_deadline = Clock::now() + 10ms;
  const Status behind = program.run_written(submission);
  EXPECT_EQ(behind.code(), Code::kDeadline);
  EXPECT_THAT(behind.message(), HasSubstr("VTADeviceRun of an earlier run has not returned"));
  EXPECT_EQ(behind.hint(), "end this program: a call into a library cannot be interrupted");

  gate.open();
  submission.time_limit = 60s;
  submission.turn_deadline = Clock::now() + 60s;
  EXPECT_TRUE(program.run_written(submission).ok());
}

TEST_P(ForeignDevice, MemoryThatALateRunMayUseStaysReserved) {
  const auto device = open(GetParam());
  std::uint64_t released = 0;
  GatedRuns gate;
  {
    conformance::ProductProgram program(*device);
    program.time_limit = 30ms;
    EXPECT_EQ(program.run().code(), Code::kDeadline);
    released = program.data.device_address();
  }
  EXPECT_FALSE(device->memory().translate(released, 1).ok());
  const Buffer next = *device->memory().allocate(conformance::ProductProgram::kDataBytes);
  EXPECT_NE(next.device_address(), released) << "the late run may still write there";
  gate.open();
  EXPECT_TRUE(conformance::ProductProgram(*device).run().ok());
  const Buffer later = *device->memory().allocate(conformance::ProductProgram::kDataBytes);
  EXPECT_EQ(later.device_address(), released) << "the driver has it back";
}

TEST_P(ForeignDevice, ADeviceThatIsStillAtWorkCanBeDestroyed) {
  GatedRuns gate;
  {
    const auto device = open(GetParam());
    conformance::ProductProgram program(*device);
    program.time_limit = 30ms;
    EXPECT_EQ(program.run().code(), Code::kDeadline);
  }
  gate.open();
  std::this_thread::sleep_for(200ms);  // the library is in use until then
}

INSTANTIATE_TEST_SUITE_P(Revisions, ForeignDevice, ::testing::Values("0.0.1", "0.0.2"),
                         [](const auto& revision) {
                           return std::string(revision.param) == "0.0.1" ? "First" : "Second";
                         });

// vta_phy_addr_t has 32 bits: without the check, the driver would run the program at a truncated
// address.
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

// The driver rounds allocations up to pages, so it would copy bytes after the end of one.
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
  const Status status = device->memory().allocate(std::size_t{1} << 29).status();
  EXPECT_THAT(status.message(), HasSubstr("VTAMemAlloc of 536870912 bytes failed"));
  EXPECT_EQ(status.hint(), "use fewer slots, or give the driver more memory");
}

NamedLibrary library(const char* path) { return {.path = path, .revision = Revision::k0_0_1}; }

TEST(ForeignDriver, NamesEveryFunctionThatALibraryLacks) {
  const Status status = open_foreign_device({}, library(EDGEPIPE_TEST_INCOMPLETE_DRIVER)).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(
      status.message(),
      HasSubstr("missing functions: VTAFlushCache, VTAInvalidateCache, VTADeviceRun, expected all "
                "functions of vta/driver.h"));
}

TEST(ForeignDriver, SaysWhichLibraryCannotBeLoadedAndWhichGivesNoDevice) {
  const Status missing = open_foreign_device({}, library("missing/libvta.so")).status();
  EXPECT_THAT(missing.message(), HasSubstr("driver missing/libvta.so: cannot be loaded: "));
  EXPECT_EQ(missing.hint(), "check its path, and that it is built for this machine");
  unsetenv("EDGEPIPE_TEST_ACCELERATOR");
  EXPECT_THAT(open_foreign_device({}, library(EDGEPIPE_TEST_DRIVER)).status().message(),
              HasSubstr("VTADeviceAlloc returned no device"));
}

TEST(ForeignDriver, RefusesProgramsOfAnotherRevision) {
  const Status status =
      open_foreign_device({}, {.path = "libvta.so", .revision = Revision::k0_0_2}).status();
  EXPECT_EQ(status.code(), Code::kOtherRevision);
  EXPECT_EQ(
      status.message(),
      "driver libvta.so: its encoding revision is 0.0.2, the programs are compiled for 0.0.1");
  EXPECT_EQ(status.hint(), "build the bundle for a board of that revision, or use another library");
}

TEST(ForeignDriver, MustBeNamedWithItsRevision) {
  const Result<NamedLibrary> named = parse_library("a@b/libvta.so@0.0.2");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->path, "a@b/libvta.so");
  EXPECT_EQ(named->revision, Revision::k0_0_2);
  for (const char* text : {"libvta.so", "libvta.so@", "libvta.so@0.0.3", "@0.0.1"}) {
    const Status status = parse_library(text).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(status.message(),
                HasSubstr("found no encoding revision, expected PATH@0.0.1 or PATH@0.0.2"));
    EXPECT_EQ(status.hint(),
              "name the revision of the hardware or simulator that the library was built for");
  }
}

}  // namespace
}  // namespace edgepipe
