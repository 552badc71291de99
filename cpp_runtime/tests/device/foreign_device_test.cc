// Devices behind libraries with the functions of vta/driver.h.
#include "device/foreign_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "support/vta_program.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;
using testing::VtaProgram;

std::string json_of(const Accelerator& accelerator, const char* revision) {
  return R"({"revision":")" + std::string(revision) + R"(","clock_hz":100000000,"batch":)" +
         std::to_string(accelerator.batch) +
         R"(,"block_in":16,"block_out":16,"uop_buffer_bytes_log2":15,"inp_buffer_bytes_log2":15,)" +
         R"("wgt_buffer_bytes_log2":18,"acc_buffer_bytes_log2":17,"acc_hazard_steps":8,)" +
         R"("command_queue_depth":512,"token_queue_depth":1024})";
}

std::unique_ptr<Device> open(const char* revision) {
  const std::string json = json_of({}, revision);
  setenv("EDGEPIPE_TEST_ACCELERATOR", json.c_str(), 1);
  Result<Accelerator> accelerator = parse_accelerator(json);
  EXPECT_TRUE(accelerator.ok()) << accelerator.status().message();
  Result<std::unique_ptr<Device>> device = open_foreign_device(*accelerator, EDGEPIPE_TEST_DRIVER);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return *std::move(device);
}

class ForeignDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignDevice, RunsAProgramOnCopiesOfItsMemory) {
  const auto device = open(GetParam());
  DeviceMemory& memory = device->memory();
  Buffer data = *memory.allocate(VtaProgram::kDataBytes);
  // The program's addresses are relative to its own memory; here only the base differs.
  VtaProgram reference(device->accelerator());
  const std::uint64_t shift = data.device_address() - reference.data.device_address();
  const InstructionCodec codec(device->accelerator());
  std::vector<InstructionWord> words;
  for (Instruction instruction : reference.instructions) {
    if (instruction.opcode == Opcode::kLoad || instruction.opcode == Opcode::kStore) {
      instruction.dram_base += static_cast<std::uint32_t>(
          shift / device->accelerator().element_bytes(instruction.memory_type));
    }
    words.push_back(*codec.encode(instruction));
  }
  std::memcpy(data.data(), reference.data.data(), VtaProgram::kDataBytes);
  auto* const bytes = reinterpret_cast<std::int8_t*>(data.data());
  for (int lane = 0; lane < 16; ++lane) {
    bytes[VtaProgram::kInpOffset + lane] = 3;
    bytes[VtaProgram::kWgtOffset + 16 * lane] = static_cast<std::int8_t>(lane);  // w[lane][0]
  }
  memory.flush(data.view());
  Buffer program = *memory.allocate(words.size() * sizeof(InstructionWord));
  std::memcpy(program.data(), words.data(), words.size() * sizeof(InstructionWord));
  memory.flush(program.view());

  const Status status = device->run(
      {.address = program.device_address(), .count = static_cast<std::uint32_t>(words.size())});

  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bytes[VtaProgram::kOutOffset + 5], 0) << "before it is copied out";
  memory.invalidate(data.view());
  for (int lane = 0; lane < 16; ++lane) {
    EXPECT_EQ(bytes[VtaProgram::kOutOffset + lane], 3 * lane);
  }
}

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

TEST(ForeignDriver, MemoryKnowsItsAllocationsAndReportsWhenItIsFull) {
  const auto device = open("0.0.1");
  DeviceMemory& memory = device->memory();
  Buffer buffer = *memory.allocate(5000);
  EXPECT_EQ(buffer.device_address() % DeviceMemory::kAlignment, 0U);
  EXPECT_EQ(*memory.translate(buffer.device_address() + 4999, 1), buffer.data() + 4999);
  EXPECT_THAT(memory.translate(buffer.device_address() + 4999, 2).status().message(),
              HasSubstr("are not in any allocation"));
  const Status none = memory.allocate(std::size_t{1} << 29).status();
  EXPECT_EQ(none.code(), Code::kOutOfMemory);
  EXPECT_THAT(none.message(), HasSubstr("VTAMemAlloc of 536870912 bytes failed"));
  const std::uint64_t generation = memory.generation();
  buffer = Buffer();
  EXPECT_NE(memory.generation(), generation);
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
