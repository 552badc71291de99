// The hardware driver on the FPGA model (model_device.h), with injected faults.
#include "device/hardware_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/uio_device.h"
#include "edgepipe/conformance/product_program.h"
#include "emulation/model_device.h"
#include "memory/non_coherent_memory.h"
#include "support/emulated_fpga.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Rig {
  explicit Rig(std::vector<Fault> faults = {}, bool interrupt = true, bool reset = true,
               std::optional<CostModel> timing = std::nullopt) {
    device = *ModelDevice::create(
        accelerator, *memory, memory->device_side(),
        {.model = {.faults = std::move(faults),
                   .stale_done = milliseconds(20),  // longer than a busy machine delays a look
                   .timing = timing,
                   .on_event = [this](const std::string& event) { events += event + "\n"; }},
         .driver = {.interrupt_patience = milliseconds(5)},
         .interrupt = interrupt,
         .reset = reset});
  }

  // acc[0] = source; acc[0] += addend; target = acc[0]'s low bytes.
  Submission program(const Buffer& insns, const Buffer& source, const Buffer& target, int addend) {
    const InstructionCodec codec(accelerator);
    const auto dram = [](const Buffer& buffer, std::uint32_t bytes) {
      return static_cast<std::uint32_t>(buffer.device_address() / bytes);
    };
    const std::vector<Instruction> instructions{// The memory is zeroed, so any word of it is uop 0.
                                                {.opcode = Opcode::kLoad,
                                                 .memory_type = MemoryType::kUop,
                                                 .dram_base = dram(target, 4),
                                                 .y_size = 1,
                                                 .x_size = 1,
                                                 .x_stride = 1},
                                                {.opcode = Opcode::kLoad,
                                                 .memory_type = MemoryType::kAcc,
                                                 .dram_base = dram(source, 64),
                                                 .y_size = 1,
                                                 .x_size = 1,
                                                 .x_stride = 1},
                                                {.opcode = Opcode::kAlu,
                                                 .push_next = 1,
                                                 .uop_end = 1,
                                                 .iter_out = 1,
                                                 .iter_in = 1,
                                                 .alu_opcode = AluOp::kAdd,
                                                 .use_imm = 1,
                                                 .imm = addend},
                                                {.opcode = Opcode::kStore,
                                                 .pop_prev = 1,
                                                 .push_prev = 1,
                                                 .memory_type = MemoryType::kOut,
                                                 .dram_base = dram(target, 16) + 1,
                                                 .y_size = 1,
                                                 .x_size = 1,
                                                 .x_stride = 1},
                                                {.opcode = Opcode::kFinish, .pop_next = 1}};
    auto* words = reinterpret_cast<InstructionWord*>(insns.data());
    for (const Instruction& instruction : instructions) *words++ = *codec.encode(instruction);
    return {.address = insns.device_address(),
            .count = static_cast<std::uint32_t>(instructions.size()),
            .time_limit = milliseconds(60'000)};
  }

  Accelerator accelerator;
  std::unique_ptr<NonCoherentMemory> memory = *NonCoherentMemory::create({.arena_bytes = 1 << 20});
  std::string events;  // read when the model is idle
  std::unique_ptr<ModelDevice> device;
};

class HardwareDeviceTest : public ::testing::Test {
 protected:
  // Runs `runs` programs with different addends; returns how many ended, all with correct results.
  // Every `hang_every`-th run, which hangs and must report it, has a short time limit.
  static std::uint64_t run_many(Rig& rig, int runs, int hang_every = 0) {
    Buffer insns = *rig.device->memory().allocate(256);
    Buffer source = *rig.device->memory().allocate(64);
    Buffer target = *rig.device->memory().allocate(64);
    std::uint64_t ended = 0;
    for (int run = 0; run < runs; ++run) {
      for (int lane = 0; lane < 16; ++lane) {
        const int value = 100 * run + lane;
        std::memcpy(source.data() + 4 * lane, &value, sizeof value);
      }
      Submission submission = rig.program(insns, source, target, run % 50);
      const bool hangs = hang_every != 0 && (run + 1) % hang_every == 0;
      submission.time_limit = hangs ? milliseconds(50) : milliseconds(60'000);
      rig.memory->flush(source.view());
      const Status status = rig.device->run(submission);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kDeadline) << status.message();
        continue;
      }
      ++ended;
      rig.memory->invalidate(target.view());
      for (int lane = 0; lane < 16; ++lane) {
        const int expected = (100 * run + lane + run % 50) & 0xFF;
        EXPECT_EQ(std::to_integer<int>(target.data()[16 + lane]), expected) << "run " << run;
      }
    }
    return ended;
  }
};

TEST_F(HardwareDeviceTest, RunsProgramsByInterrupt) {
  Rig rig;
  EXPECT_EQ(run_many(rig, 100), 100);
  EXPECT_EQ(rig.device->statistics().runs, 100);
  EXPECT_EQ(rig.device->statistics().hangs, 0);
}

TEST_F(HardwareDeviceTest, ATimedAcceleratorTakesTheTimeOfItsCostsAlsoForTheFence) {
  CostModel cost{.instruction_cycles = 333'000,  // 1 ms at 333 MHz
                 .gemm_step_cycles = 1,
                 .alu_step_cycles = 1,
                 .bus_bytes = 16,
                 .bus_efficiency_percent = 100,
                 .burst_bytes = 4096};
  Rig rig({}, true, true, cost);
  Buffer insns = *rig.device->memory().allocate(256);
  Buffer source = *rig.device->memory().allocate(64);
  Buffer target = *rig.device->memory().allocate(64);
  Submission submission = rig.program(insns, source, target, 7);
  std::chrono::nanoseconds ran{0};
  submission.ran = &ran;
  const Status status = rig.device->run(submission);
  ASSERT_TRUE(status.ok()) << status.message();
  rig.memory->invalidate(target.view());
  EXPECT_EQ(std::to_integer<int>(target.data()[16]), 7);
  EXPECT_GE(ran, milliseconds(9));  // four instructions, and the five of the fence
}

TEST_F(HardwareDeviceTest, RunsProgramsByPollingWhenThereIsNoInterrupt) {
  Rig rig({}, /*interrupt=*/false);
  EXPECT_EQ(run_many(rig, 50), 50);
  EXPECT_EQ(rig.device->statistics().lost_interrupts, 0);
}

TEST_F(HardwareDeviceTest, StaleDoneFlagIsIgnored) {
  Rig rig({{.kind = FaultKind::kStaleDone, .every_runs = 2}}, /*interrupt=*/false);
  EXPECT_EQ(run_many(rig, 20), 20);
  EXPECT_GE(rig.device->statistics().stale_done, 10);
}

TEST_F(HardwareDeviceTest, LostInterruptIsNoticedAndCounted) {
  Rig rig({{.kind = FaultKind::kLostInterrupt, .every_runs = 4}});
  EXPECT_EQ(run_many(rig, 20), 20);
  // On a busy machine, the check after `interrupt_patience` can come before the model's pulse.
  EXPECT_GE(rig.device->statistics().lost_interrupts, 5);
}

TEST_F(HardwareDeviceTest, AHangIsReportedAtItsDeadlineAndReset) {
  Rig rig({{.kind = FaultKind::kHang, .every_runs = 5}});
  EXPECT_EQ(run_many(rig, 20, 5), 16);
  EXPECT_EQ(rig.device->statistics().hangs, 4);
  EXPECT_EQ(rig.device->statistics().resets, 4);
}

TEST_F(HardwareDeviceTest, SurvivesEveryFaultAtOnce) {
  Rig rig({{.kind = FaultKind::kHang, .every_runs = 50},
           {.kind = FaultKind::kStaleDone, .every_runs = 7},
           {.kind = FaultKind::kLostInterrupt, .every_runs = 11}});
  EXPECT_EQ(run_many(rig, 200, 50), 196);
  EXPECT_EQ(rig.device->statistics().resets, 4);
}

TEST_F(HardwareDeviceTest, WithoutAResetLineAHangIsPermanent) {
  // The first run shows at the start that the accelerator is idle.
  Rig rig({{.kind = FaultKind::kHang, .every_runs = 3}}, true, /*reset=*/false);
  EXPECT_EQ(run_many(rig, 1), 1);
  Buffer insns = *rig.device->memory().allocate(256);
  Buffer data = *rig.device->memory().allocate(256);
  Submission submission = rig.program(insns, data, data, 1);
  submission.time_limit = milliseconds(300);  // by then, the model has begun the program
  const Status hung = rig.device->run(submission);
  EXPECT_EQ(hung.code(), Code::kDeadline);
  EXPECT_THAT(hung.message(),
              AllOf(HasSubstr("vta: hangs: deadline passed in run 2 of 5 instructions"),
                    HasSubstr("fetch has not issued all of them, the last store has not ended"),
                    HasSubstr("fetch control 0x0 count 0x"),
                    HasSubstr("load control 0x81, compute control "
                              "0x81 done 0x0, store control 0x81"),
                    HasSubstr("there is no reset line")));
  EXPECT_EQ(hung.hint(), "examine the board with `edgepipe doctor`");
  const Status after = rig.device->run(submission);
  EXPECT_EQ(after.code(), Code::kDevice);
  EXPECT_THAT(after.message(), HasSubstr("program its bitstream again"));
}

TEST_F(HardwareDeviceTest, NeverStartsAProgramThatBreaksARule) {
  Rig rig;
  Buffer insns = *rig.device->memory().allocate(256);
  Buffer data = *rig.device->memory().allocate(256);
  Submission submission = rig.program(insns, data, data, 1);
  // The ALU instruction before any uop and accumulator was loaded.
  std::memmove(insns.data(), insns.data() + 32, 48);
  submission.count = 3;
  const Status status = rig.device->run(submission);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("reads uop entry 0, which nothing has written"));
  EXPECT_EQ(rig.device->statistics().runs, 0);
  EXPECT_EQ(rig.events, "reset after run 0\n");
}

TEST_F(HardwareDeviceTest, CopiesTheProgramsOfAPipelineOnce) {
  Rig rig;
  const Buffer source = *rig.memory->allocate(64);
  const Buffer target = *rig.memory->allocate(64);
  std::vector<Buffer> instructions;
  std::vector<Submission> submissions;
  const auto add = [&](int addend) {
    instructions.push_back(*rig.memory->allocate(256));
    submissions.push_back(rig.program(instructions.back(), source, target, addend));
    ASSERT_TRUE(rig.device->prepare(submissions.back()).ok());
  };
  for (int n = 0; n < 80; ++n) add(n);
  const std::uint64_t generation = rig.memory->generation();
  for (int round = 0; round < 2; ++round) {
    for (const Submission& submission : submissions) {
      ASSERT_TRUE(rig.device->run(submission).ok());
    }
  }
  EXPECT_EQ(rig.memory->generation(), generation) << "no run allocates";

  // What was released makes room: the memory would not hold the copies of all of these.
  for (int n = 0; n < 400; ++n) {
    instructions.clear();
    submissions.clear();
    add(n);
  }
}

TEST_F(HardwareDeviceTest, BeginsWithAReset) {
  Rig rig({{.kind = FaultKind::kHang, .every_runs = 1}});
  EXPECT_EQ(rig.events, "reset after run 0\n");
}

/// The accelerator of a board without a reset line, with memory in an arena.
struct Board {
  explicit Board(std::uint64_t hang_every) : fpga({}, {{FaultKind::kHang, hang_every}}) {
    options.reset = "none";
    memory = *open_uio_memory(options);
  }

  testing::EmulatedFpga fpga;
  UioOptions options = fpga.options();
  std::unique_ptr<DeviceMemory> memory;
};

TEST_F(HardwareDeviceTest, IsNotOpenedWhileAnEarlierProgramHangs) {
  Board board(1);
  const Status status = open_uio_device({}, *board.memory, board.options).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(), "vta: still runs a program of an earlier process, or hangs in it");
  EXPECT_EQ(status.hint(),
            "program its bitstream again, then examine the board with `edgepipe doctor`");
}

TEST_F(HardwareDeviceTest, MemoryOfAProgramThatNothingStopsIsNotHandedOutAgain) {
  Board board(3);
  const auto device = *open_uio_device({}, *board.memory, board.options);
  std::uint64_t used = 0;
  {
    conformance::ProductProgram program(*device);
    EXPECT_TRUE(program.run().ok());
    used = program.data.device_address();
  }
  {
    conformance::ProductProgram program(*device);
    EXPECT_EQ(program.data.device_address(), used) << "it was released";
    program.time_limit = milliseconds(50);
    EXPECT_EQ(program.run().code(), Code::kDeadline);
  }
  EXPECT_NE(board.memory->allocate(conformance::ProductProgram::kDataBytes)->device_address(),
            used);
}

TEST_F(HardwareDeviceTest, ProgramMustEndInAFinishThatWaitsForTheStores) {
  Rig rig;
  Buffer insns = *rig.device->memory().allocate(256);
  Buffer data = *rig.device->memory().allocate(256);
  Submission submission = rig.program(insns, data, data, 1);
  submission.count = 4;
  const Status status = rig.device->prepare(submission);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("the program does not end with FINISH"));
  const InstructionWord finish = *InstructionCodec(rig.accelerator).encode({});
  std::memcpy(insns.data(), &finish, sizeof finish);
  submission.count = 1;
  EXPECT_THAT(rig.device->prepare(submission).message(),
              HasSubstr("expected a FINISH that pops the store's token"));
}

TEST(FaultTest, AWrongBitIsInTheLastStore) {
  Rig rig({{.kind = FaultKind::kWrongBit, .every_runs = 2}});
  const Buffer insns = *rig.memory->allocate(4096);
  const Buffer source = *rig.memory->allocate(64);
  const Buffer target = *rig.memory->allocate(64);
  const Submission submission = rig.program(insns, source, target, 6);
  rig.memory->flush(insns.view());
  for (const int wrong : {0, 1, 0, 1}) {
    rig.memory->flush(target.view());
    ASSERT_TRUE(rig.device->run(submission).ok());
    rig.memory->invalidate(target.view());
    EXPECT_EQ(static_cast<int>(target.data()[16]), 6 ^ wrong);
    EXPECT_EQ(static_cast<int>(target.data()[17]), 6);
  }
  EXPECT_THAT(rig.events, HasSubstr("run 4: injected wrong bit"));
}

TEST(FaultTest, KindsAndIntervalsAreRead) {
  Result<Fault> fault = parse_fault("stale-done=12");
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault->kind, FaultKind::kStaleDone);
  EXPECT_EQ(fault->every_runs, 12);
  for (const char* text : {"", "hang", "hang=", "hang=0", "hang=x", "hang=1x", "fire=1"}) {
    const Status refused = parse_fault(text).status();
    EXPECT_THAT(refused.message(), HasSubstr("expected hang=N")) << text;
    EXPECT_EQ(refused.hint(), "N is a whole number from 1 up: every N-th run has the fault");
  }
}

}  // namespace
}  // namespace edgepipe
