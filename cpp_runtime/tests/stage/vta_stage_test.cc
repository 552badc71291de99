// VtaStage and Program: from the four files to a run in every slot.
#include "stage/vta_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "device/uio_device.h"
#include "emulation/timed_device.h"
#include "support/emulated_fpga.h"
#include "support/foreign_test_driver.h"
#include "support/recording_memory.h"
#include "support/vta_stage_files.h"

namespace edgepipe {
namespace {

using ::edgepipe::testing::VtaStageFiles;
using ::testing::HasSubstr;

class VtaStageTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<VtaStage>> create(VtaStage::Options options) {
    return VtaStage::create(*simulator_, *files_.parse(), std::move(options));
  }

  static VtaStage::Options options() { return {.name = "body", .inputs = {"x"}, .outputs = {"y"}}; }

  VtaStageFiles files_;
  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = std::size_t{1} << 20});
  std::unique_ptr<Simulator> simulator_ = *Simulator::create({}, *memory_);
};

TEST_F(VtaStageTest, TwoStagesShareADeviceFromTwoThreads) {
  const auto work = [this](int value) {
    auto stage = create(options());
    ASSERT_TRUE(stage.ok());
    const Buffer x = *memory_->allocate(16);
    const Buffer y = *memory_->allocate(16);
    ASSERT_TRUE((*stage)->bind(0, {&x.view(), 1}, {&y.view(), 1}).ok());
    std::memset(x.data(), value, 16);
    for (int frame = 0; frame < 50; ++frame) {
      ASSERT_TRUE((*stage)->run(0).ok());
      ASSERT_EQ(std::to_integer<int>(y.data()[7]), 3 * value);
    }
  };
  std::thread first(work, 5);
  std::thread second(work, 11);
  first.join();
  second.join();
}

// One slot of the stage `files` on a simulator slowed down to the modelled time.
class TimedStage {
 public:
  TimedStage(const VtaStageFiles& files, VtaStage::Options options) {
    stage_ = *VtaStage::create(device_, *files.parse(), std::move(options));
    const Status bound = stage_->bind(0, {&x_.view(), 1}, {&y_.view(), 1});
    EXPECT_TRUE(bound.ok()) << bound.message();
    std::memset(x_.data(), 7, 16);
  }

  Status run() { return stage_->run(0); }
  [[nodiscard]] std::chrono::nanoseconds device_run() const { return stage_->device_run(); }
  [[nodiscard]] int output() const { return std::to_integer<int>(y_.data()[0]); }

 private:
  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = std::size_t{1} << 20});
  TimedDevice device_{*Simulator::create({}, *memory_)};
  Buffer x_ = *memory_->allocate(16);
  Buffer y_ = *memory_->allocate(16);
  std::unique_ptr<VtaStage> stage_;
};

TEST_F(VtaStageTest, ATimedRunTakesAtLeastTheModelledTime) {
  files_.description["modelled_cycles"] = 3'330'000;  // 10 ms at 333 MHz
  EXPECT_EQ(files_.parse()->modelled_time(), std::chrono::milliseconds(10));
  TimedStage stage(files_, options());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(stage.run().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10));
  EXPECT_EQ(stage.output(), 21);
  EXPECT_GE(stage.device_run(), std::chrono::milliseconds(10));
  EXPECT_LE(stage.device_run(), std::chrono::steady_clock::now() - begin);
}

TEST_F(VtaStageTest, ATimedRunEndsAtItsTimeLimit) {
  files_.description["modelled_cycles"] = 3'330'000'000;  // 10 s
  VtaStage::Options hurried = options();
  hurried.time_limit = std::chrono::milliseconds(20);
  const Status status = TimedStage(files_, hurried).run();
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_THAT(status.message(), HasSubstr("modelled time exceeds the time limit"));
  EXPECT_EQ(status.hint(), "allow the device more time");
}

TEST_F(VtaStageTest, TimedRunsOfTwoThreadsTakeTurnsAsOnTheBoard) {
  files_.description["modelled_cycles"] = 3'330'000;  // 10 ms at 333 MHz
  TimedStage stage(files_, options());
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&stage] { EXPECT_TRUE(stage.run().ok()); });
  EXPECT_TRUE(stage.run().ok());
  other.join();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
}

TEST_F(VtaStageTest, RefusesUnboundSlotsAndWrongBuffers) {
  auto stage = create(options());
  ASSERT_TRUE(stage.ok());
  EXPECT_THAT((*stage)->run(0).message(), HasSubstr("stage body: slot 0 was never bound"));
  const Buffer small = *memory_->allocate(8);
  const BufferView view = small.view();
  EXPECT_THAT((*stage)->bind(0, {&view, 1}, {&view, 1}).message(),
              HasSubstr("tensor x: the buffer has 8 bytes, expected 16"));
  EXPECT_THAT((*stage)->bind(0, {}, {&view, 1}).message(), HasSubstr("0 buffers, expected 1"));
}

TEST_F(VtaStageTest, RefusesOtherTensorsAndOtherAccelerators) {
  VtaStage::Options wrong = options();
  wrong.inputs = {"z"};
  EXPECT_THAT(create(wrong).status().message(), HasSubstr("the program has no input tensor z"));
  wrong.inputs.clear();
  EXPECT_THAT(create(wrong).status().message(),
              HasSubstr("has 1 input tensors, the stage names 0"));
  files_.description["accelerator"]["batch"] = 2;
  const Status other = create(options()).status();
  EXPECT_THAT(other.message(), HasSubstr("compiled for another accelerator"));
  EXPECT_EQ(other.hint(), "build the bundle for the board of this device");
}

TEST_F(VtaStageTest, NamesStageAndLayerOfABrokenProgram) {
  files_.relocations[2] = 0;
  files_.words[2].low |= std::uint64_t{2000} << 25;  // x from far after the constants
  auto stage = create(options());
  ASSERT_TRUE(stage.ok());
  const Buffer buffer = *memory_->allocate(16);
  const BufferView view = buffer.view();
  const Status status = (*stage)->bind(0, {&view, 1}, {&view, 1});
  EXPECT_THAT(status.message(), HasSubstr("stage body: instruction 2 (layer dense) LOAD INP"));
}

TEST_F(VtaStageTest, AFailureOfCacheMaintenanceIsAnErrorOfTheDevice) {
  testing::RecordingMemory recording(*memory_);
  const auto device = *Simulator::create({}, recording);
  const auto stage = *VtaStage::create(*device, *files_.parse(), options());
  const Buffer x = *memory_->allocate(16);
  const Buffer y = *memory_->allocate(16);
  ASSERT_TRUE(stage->bind(0, {&x.view(), 1}, {&y.view(), 1}).ok());
  ASSERT_TRUE(stage->run(0).ok());
  recording.failure = Status(Code::kDevice, "memory: no sync");
  const Status status = stage->run(0);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(), "stage body: memory: no sync");
}

TEST(DeviceSet, TimeLimitsFollowTheModelledTime) {
  using std::chrono::milliseconds;
  const DeviceSet board{.devices = {}, .least_time_limit = milliseconds(1000)};
  EXPECT_EQ(board.limit_for(milliseconds(100)), milliseconds(2000));
  EXPECT_EQ(board.limit_for(milliseconds(3)), milliseconds(1000));
  EXPECT_EQ(board.limit_for(milliseconds(0)), milliseconds(10'000)) << "not modelled";
  EXPECT_EQ(DeviceSet().limit_for(milliseconds(3)), milliseconds(10'000)) << "a simulator";
  const DeviceSet fixed{.devices = {}, .time_limit = milliseconds(7)};
  EXPECT_EQ(fixed.limit_for(milliseconds(100)), milliseconds(7));
}

// The program of a modified bundle: its STORE goes to an absolute physical address.
TEST_F(VtaStageTest, NoDeviceRunsAStoreToAnAbsoluteAddress) {
  files_.relocations[5] = 255;
  files_.words[5].low |= std::uint64_t{0x1000'0000 / 16} << 25;
  const auto refusal = [this](Device& device) {
    files_.description["accelerator"]["clock_hz"] = device.accelerator().clock_hz;
    auto stage = VtaStage::create(device, *files_.parse(), options());
    EXPECT_TRUE(stage.ok()) << stage.status().message();
    const Buffer buffer = *device.memory().allocate(16);
    const BufferView view = buffer.view();
    return (*stage)->bind(0, {&view, 1}, {&view, 1});
  };
  testing::EmulatedFpga fpga;
  const auto memory = *open_uio_memory(fpga.options());
  const auto driver = *open_uio_device({}, *memory, fpga.options());
  const auto foreign = *testing::open_test_driver("0.0.1");
  for (Device* const device : {static_cast<Device*>(&*simulator_), static_cast<Device*>(&*driver),
                               static_cast<Device*>(&*foreign)}) {
    const Status status = refusal(*device);
    EXPECT_EQ(status.code(), Code::kDevice);
    EXPECT_THAT(status.message(), HasSubstr("stage body: instruction 5 (layer dense) STORE OUT"));
    EXPECT_EQ(status.hint(),
              "the program breaks a rule of the accelerator: build it again, or report it");
  }
  EXPECT_EQ(driver->statistics().runs, 0);
}

// ---- Program -----------------------------------------------------------------------------------

TEST(Program, RefusesFilesThatDoNotFitTogether) {
  const auto message = [](auto change) {
    VtaStageFiles files;
    change(files);
    const auto program = files.parse();
    EXPECT_FALSE(program.ok());
    return program.status().message();
  };
  EXPECT_THAT(message([](VtaStageFiles& f) { f.description["format"] = 2; }),
              HasSubstr("format 2, this runtime reads 1"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.constants.pop_back(); }),
              HasSubstr("consts.bin: 511 bytes, expected 512"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.relocations.pop_back(); }),
              HasSubstr("relocs.bin: 6 bytes, expected one for each of 7"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.words.clear(); }), HasSubstr("insns.bin: 0 bytes"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.relocations[5] = 9; }),
              HasSubstr("instruction 5 names region 9, there are 3"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.relocations[5] = 1; }),
              HasSubstr("writes region x, expected a scratch or output region"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.relocations[3] = 0; }),
              HasSubstr("names a region, expected a LOAD or STORE"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.description["regions"][1]["kind"] = "heap"; }),
              HasSubstr("found \"heap\", expected const, scratch, input or output"));
  EXPECT_THAT(message([](VtaStageFiles& f) { f.description["accelerator"]["batch"] = 3; }),
              HasSubstr("batch is 3, expected a power of two"));
}

TEST(Program, RefusesBasesThatTheInstructionsCannotHold) {
  const auto program = VtaStageFiles().parse();
  std::vector<InstructionWord> out(7);
  const std::vector<std::uint64_t> misaligned{4096, 8, 4096};
  EXPECT_THAT(program->relocate(misaligned, out).message(),
              HasSubstr("region x at device address 8, expected a multiple of 16"));
  const std::vector<std::uint64_t> far{std::uint64_t{1} << 40, 0, 0};
  EXPECT_FALSE(program->relocate(far, out).ok());
}

}  // namespace
}  // namespace edgepipe
