// edgepipe's own registers as the driver uses them, on a register file in memory.
#include "device/own_registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/hardware_device.h"
#include "device/own_register_map.h"

namespace edgepipe {
namespace {

namespace own = vta::own;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::uint32_t kEverything = 0x1F;
constexpr std::uint32_t kRevision001 = own::kMapVersion << 24 | 1;

class FakeRegisters final : public RegisterFile {
 public:
  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const override {
    const auto found = values.find(offset);
    return found == values.end() ? 0 : found->second;
  }
  void write(std::uint32_t offset, std::uint32_t value) override {
    written.emplace_back(offset, value);
    if (offset == own::kCommand && aborts) values[own::kState] = own::kStateIdle;
  }

  std::map<std::uint32_t, std::uint32_t> values{
      {own::kMagic, own::kMagicValue},
      {own::kRevision, kRevision001},
      {own::kConfiguration, configuration_hash({}, 16)},
      {own::kCapabilities, kEverything},
      {own::kState, own::kStateIdle},
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> written;
  bool aborts = true;
};

class OwnRegistersTest : public ::testing::Test {
 protected:
  std::unique_ptr<OwnRegisters> found() { return *OwnRegisters::find(registers_, {}); }

  FakeRegisters registers_;
};

TEST(ConfigurationHashTest, IsThatOfTheHardware) {
  // Source: configuration_hash(Accelerator(), 16) in tests/vta_rtl/registers.
  EXPECT_EQ(configuration_hash({}, 16), 0x35AC0F86u);
  EXPECT_NE(configuration_hash({.load_queue_depth = 128}, 16), configuration_hash({}, 16));
  EXPECT_NE(configuration_hash({.uop_index_bits = 13}, 16), configuration_hash({}, 16));
  Accelerator extended;
  extended.extensions = static_cast<std::uint32_t>(Extension::kRequantise) |
                        static_cast<std::uint32_t>(Extension::kMultiply) |
                        static_cast<std::uint32_t>(Extension::kTable);
  EXPECT_EQ(configuration_hash(extended, 16), 0x8B237127u);
}

TEST_F(OwnRegistersTest, APublishedBitstreamHasNone) {
  registers_.values.clear();
  EXPECT_EQ(found(), nullptr);
  EXPECT_FALSE(read_own_hardware(registers_).has_value());
}

TEST_F(OwnRegistersTest, AnyBusIsAccepted) {
  for (const std::uint32_t bus_bytes : {8u, 16u, 64u}) {
    registers_.values[own::kConfiguration] = configuration_hash({}, bus_bytes);
    EXPECT_NE(found(), nullptr);
  }
}

TEST_F(OwnRegistersTest, AnotherAcceleratorIsRefusedWithWhatIsExpected) {
  registers_.values[own::kConfiguration] = 0x1234;
  const Status status = OwnRegisters::find(registers_, {}).status();
  EXPECT_EQ(status.code(), Code::kOtherConfiguration);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("another accelerator (hash 0x1234)"),
                    HasSubstr("expected 1x16_i8w8a32_15_15_18_17 with queues of 512 commands")));
  EXPECT_EQ(status.hint(),
            "name the accelerator in the board's file as the bitstream has it, then build again");
}

TEST_F(OwnRegistersTest, AnotherRevisionIsRefused) {
  registers_.values[own::kRevision] = own::kMapVersion << 24 | 2;
  const Status status = OwnRegisters::find(registers_, {}).status();
  EXPECT_EQ(status.code(), Code::kOtherRevision);
  EXPECT_THAT(status.message(), HasSubstr("has instructions of revision 0.0.2, expected 0.0.1"));
}

TEST_F(OwnRegistersTest, ANewerMapIsRefused) {
  registers_.values[own::kRevision] = 9U << 24 | 1;
  const Status status = OwnRegisters::find(registers_, {}).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("map of registers has version 9, expected 1"));
  EXPECT_EQ(status.hint(), "use the edgepipe that the bitstream was made with, or a newer one");
}

TEST_F(OwnRegistersTest, PreparingSetsTheWindowAndLowersTheInterrupt) {
  found()->prepare(MemoryRange{.address = 0x1000, .bytes = 0x2000});
  EXPECT_THAT(registers_.written,
              ElementsAre(Pair(own::kWindowFirst, 0x1000), Pair(own::kWindowLast, 0x2FFF),
                          Pair(own::kInterruptStatus, 0xFFFFFFFF), Pair(own::kInterruptEnable, 7)));
}

TEST_F(OwnRegistersTest, AWindowEndsWhereAddressesEnd) {
  found()->prepare(MemoryRange{.address = 0xFFFF0000, .bytes = std::size_t{1} << 20});
  EXPECT_EQ(registers_.written[1], std::pair(own::kWindowLast, 0xFFFFFFFFu));
}

TEST_F(OwnRegistersTest, MemoryInSeveralPlacesHasNoWindow) {
  found()->prepare(std::nullopt);
  EXPECT_EQ(registers_.written.front().first, own::kInterruptStatus);
}

TEST_F(OwnRegistersTest, WhatTheHardwareLacksIsNotWritten) {
  registers_.values[own::kCapabilities] = 0;
  registers_.values[own::kError] = 1;
  const std::unique_ptr<OwnRegisters> bare = found();
  bare->prepare(MemoryRange{.address = 0x1000, .bytes = 0x2000});
  EXPECT_TRUE(registers_.written.empty());
  EXPECT_EQ(bare->error(), "");
  EXPECT_EQ(bare->counters(), "");
  EXPECT_EQ(bare->abort().code(), Code::kUnsupported);
}

TEST_F(OwnRegistersTest, ErrorsHaveNamesAndAddresses) {
  EXPECT_EQ(found()->error(), "");
  registers_.values[own::kError] = 1U << 0;
  EXPECT_EQ(found()->error(), "unknown_opcode");
  registers_.values[own::kError] = 1U << 5 | 1U << 11;
  registers_.values[own::kErrorAddress] = 0xABC0;
  EXPECT_EQ(found()->error(), "load_answer and store_outside at 0xabc0");
  registers_.values[own::kError] = 1U << 30;  // of hardware that is newer
  EXPECT_EQ(found()->error(), "error 0x40000000");
}

TEST_F(OwnRegistersTest, AReportSaysWhatTheFpgaIsAndHowItsLastProgramEnded) {
  registers_.values[own::kCapabilities] =
      own::kCapabilityErrors | own::kCapabilityTable | own::kCapabilityClear;
  registers_.values[own::kError] = 1U << 9;
  registers_.values[own::kErrorAddress] = 0xFF0;
  const std::optional<OwnHardware> hardware = read_own_hardware(registers_);
  ASSERT_TRUE(hardware.has_value());
  EXPECT_EQ(hardware->map_version, own::kMapVersion);
  EXPECT_EQ(hardware->encoding_text(), "0.0.1");
  EXPECT_EQ(hardware->configuration, configuration_hash({}, 16));
  EXPECT_THAT(hardware->capability_names(), ElementsAre("errors", "table", "clear"));
  EXPECT_EQ(hardware->error, "load_outside at 0xff0");
  EXPECT_TRUE(registers_.written.empty());
}

TEST_F(OwnRegistersTest, AReportOfANewerMapHasOnlyItsVersion) {
  registers_.values[own::kRevision] = 9U << 24 | 1;
  registers_.values[own::kError] = 1;
  const std::optional<OwnHardware> hardware = read_own_hardware(registers_);
  ASSERT_TRUE(hardware.has_value());
  EXPECT_EQ(hardware->map_version, 9u);
  EXPECT_TRUE(hardware->capability_names().empty());
  EXPECT_EQ(hardware->error, "");
}

TEST_F(OwnRegistersTest, AnAbortWaitsUntilTheDeviceIsIdle) {
  registers_.values[own::kState] = 0;
  EXPECT_TRUE(found()->abort().ok());
  EXPECT_THAT(registers_.written, ElementsAre(Pair(own::kCommand, 1)));
}

TEST_F(OwnRegistersTest, AnAbortThatNeverEndsIsAnError) {
  registers_.values[own::kState] = 0;
  registers_.aborts = false;
  EXPECT_EQ(found()->abort().code(), Code::kDeadline);
}

TEST_F(OwnRegistersTest, CountersAreCyclesByModule) {
  registers_.values[own::kCycles] = 900;
  for (const own::Counters& counters : own::kCounters) {
    registers_.values[counters.busy] = counters.busy;
    registers_.values[counters.stall] = 3;
  }
  EXPECT_THAT(found()->counters(),
              AllOf(HasSubstr("900 cycles, fetch busy 308 waiting 3, load busy 316 waiting 3"),
                    HasSubstr("store busy 332 waiting 3")));
}

}  // namespace
}  // namespace edgepipe
