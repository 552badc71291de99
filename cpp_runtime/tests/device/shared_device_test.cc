// One accelerator for several processes: their bits, their turns, and what remains of one that
// died.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "device/shared_turns.h"
#include "device/uio_device.h"
#include "edgepipe/conformance/product_program.h"
#include "support/emulated_fpga.h"
#include "support/forked_process.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using conformance::ProductProgram;
using testing::EmulatedFpga;
using testing::ForkedProcess;
using ::testing::HasSubstr;

/// Counters in memory that all processes of a test see.
struct Counters {
  std::array<std::atomic<int>, 2> right{};
  std::atomic<int> wrong{0};
  std::atomic<int> opened{0};
  std::atomic<int> orphans{0};
  std::atomic<bool> stop{false};
};

class SharedCounters {
 public:
  SharedCounters()
      : counters_(new (::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counters) {}
  ~SharedCounters() { ::munmap(counters_, sizeof(Counters)); }
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;
  Counters* operator->() const { return counters_; }

 private:
  Counters* const counters_;
};

/// A process's memory and accelerator.
struct Opened {
  static Opened on(UioOptions options, int priority = 0) {
    options.shared = true;
    options.priority = priority;
    Opened opened{.memory = *open_uio_memory(options), .device = nullptr};
    opened.device = *open_uio_device({}, *opened.memory, options);
    return opened;
  }

  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<HardwareDevice> device;
};

/// A small network: two processes have different ones.
class Network {
 public:
  Network(Device& device, std::uint32_t seed) : program_(device) {
    if (seed % 2 == 1) {
      program_.insert(ProductProgram::kStore, ProductProgram::alu(AluOp::kAdd, 1));
      // The token for the store is pushed by the last instruction before it.
      std::swap(program_.instructions[ProductProgram::kGemm].push_next,
                program_.instructions[ProductProgram::kStore].push_next);
      added_ = 1;
    }
    program_.fill(seed);
    program_.write();
    program_.time_limit = 10s;
  }

  /// One run; whether its bits are right.
  bool run() {
    std::memset(program_.int8_at(ProductProgram::kOutOffset), 0x5A, 64);
    const Status status = program_.run_written(program_.submission());
    if (!status.ok()) {
      std::fprintf(stderr, "process %d: %s\n", ::getpid(), status.message().c_str());
      return false;
    }
    std::vector<std::int8_t> expected = program_.product();
    for (std::int8_t& value : expected) value = static_cast<std::int8_t>(value + added_);
    return program_.output() == expected;
  }

 private:
  ProductProgram program_;
  int added_ = 0;
};

/// A process that runs network number `seed` from when all users have opened the accelerator until
/// it is told to stop.
int run_until_stopped(const UioOptions& options, const SharedCounters& counters, std::uint32_t seed,
                      int priority = 0, int users = 2) {
  const Opened opened = Opened::on(options, priority);
  Network network(*opened.device, seed);
  ++counters->opened;
  while (counters->opened < users) std::this_thread::sleep_for(1ms);
  while (!counters->stop) {
    if (!network.run()) {
      ++counters->wrong;
      return 1;
    }
    ++counters->right[seed % 2];
  }
  counters->orphans += static_cast<int>(opened.device->statistics().orphans);
  return 0;
}

void await(const std::atomic<int>& counter, int least) {
  const Clock::time_point end = Clock::now() + 60s;
  while (counter < least && Clock::now() < end) std::this_thread::sleep_for(1ms);
}

TEST(SharedDevice, TwoProcessesTakeTurnsAndEachHasItsOwnBits) {
  const SharedCounters counters;
  const auto body = [&](std::uint32_t seed) {
    return [&counters, seed](const std::string& folder) {
      return run_until_stopped(EmulatedFpga::options_at(folder), counters, seed);
    };
  };
  ForkedProcess even(body(4));
  ForkedProcess odd(body(7));
  const EmulatedFpga fpga;
  even.say(fpga.folder());
  odd.say(fpga.folder());
  await(counters->right[0], 100);
  await(counters->right[1], 100);
  counters->stop = true;
  EXPECT_EQ(even.wait(), 0);
  EXPECT_EQ(odd.wait(), 0);
  EXPECT_EQ(counters->wrong, 0);
  // Strictly in turn, but a busy machine may keep a process from asking in time.
  const int fewer = std::min<int>(counters->right[0], counters->right[1]);
  const int more = std::max<int>(counters->right[0], counters->right[1]);
  EXPECT_GE(fewer, 100);
  EXPECT_LE(more, 2 * fewer) << fewer;
}

/// With the reset line of the virtual board, or without one, as on other boards.
class SharedDeviceWithDeaths : public ::testing::TestWithParam<bool> {};

TEST_P(SharedDeviceWithDeaths, OneGoesOnWithRightBitsWhileFiftyHoldersAreKilled) {
  constexpr int kDeaths = 50;
  const SharedCounters counters;
  const auto options_at = [](const std::string& folder) {
    UioOptions options = EmulatedFpga::options_at(folder);
    if (!GetParam()) options.reset = "none";
    return options;
  };
  ForkedProcess steady([&](const std::string& folder) {
    return run_until_stopped(options_at(folder), counters, 4);
  });
  // A process without threads of its own, which can fork.
  ForkedProcess killer([&](const std::string& folder) {
    ++counters->opened;
    for (int death = 0; death < kDeaths; ++death) {
      const int before = counters->right[1];
      ForkedProcess victim([&](const std::string& folder_again) {
        return run_until_stopped(options_at(folder_again), counters, 7);
      });
      victim.say(folder);
      await(counters->right[1], before + 1);
      std::this_thread::sleep_for(std::chrono::microseconds(137 * (death % 10)));
      victim.signal(SIGKILL);
      if (victim.wait() != -SIGKILL) return 1;
    }
    return 0;
  });
  const EmulatedFpga fpga;
  steady.say(fpga.folder());
  killer.say(fpga.folder());
  EXPECT_EQ(killer.wait(), 0);
  const int then = counters->right[0];
  await(counters->right[0], then + 10);
  counters->stop = true;
  EXPECT_EQ(steady.wait(), 0);
  EXPECT_EQ(counters->wrong, 0);
  EXPECT_GE(counters->right[0], then + 10) << "it goes on";
  EXPECT_GE(counters->right[1], kDeaths);
  EXPECT_GE(counters->orphans, 1) << "no victim died in a run";
}

INSTANTIATE_TEST_SUITE_P(All, SharedDeviceWithDeaths, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "WithAResetLine" : "WithoutOne";
                         });

TEST(SharedDevice, TheHigherPriorityGetsMoreOfABusyAccelerator) {
  const SharedCounters counters;
  // Two threads of one process would be one user; these are four.
  const auto body = [&](std::uint32_t seed, int priority) {
    return [&counters, seed, priority](const std::string& folder) {
      return run_until_stopped(EmulatedFpga::options_at(folder), counters, seed, priority, 4);
    };
  };
  ForkedProcess high(body(1, 5));
  ForkedProcess also_high(body(3, 5));
  ForkedProcess low(body(2, -5));
  ForkedProcess also_low(body(4, -5));
  const EmulatedFpga fpga;
  for (const ForkedProcess* process : {&high, &also_high, &low, &also_low}) {
    process->say(fpga.folder());
  }
  await(counters->opened, 4);
  const int low_before = counters->right[0];
  const int high_before = counters->right[1];
  await(counters->right[1], high_before + 200);
  counters->stop = true;
  for (ForkedProcess* process : {&high, &also_high, &low, &also_low}) EXPECT_EQ(process->wait(), 0);
  EXPECT_GT(counters->right[1] - high_before, 2 * (counters->right[0] - low_before));
}

TEST(SharedDevice, OneThatSharesAndOneThatDoesNotRefuseEachOther) {
  const EmulatedFpga fpga;
  const std::string uio = fpga.folder() + "/dev/uio0";
  UioOptions options = fpga.options();
  const auto memory = *open_uio_memory(options);
  std::unique_ptr<HardwareDevice> alone = *open_uio_device({}, *memory, options);
  options.shared = true;
  Status status = open_uio_device({}, *memory, options).status();
  EXPECT_EQ(status.message(),
            uio + ": another process uses it alone, expected only ones that share it");
  EXPECT_EQ(status.hint(), "let it use uio:shared, too, or stop that process: `fuser " + uio +
                               "` shows its number");
  alone.reset();
  const Opened shared = Opened::on(options);
  options.shared = false;
  status = open_uio_device({}, *memory, options).status();
  EXPECT_EQ(status.message(), uio + ": another process uses it and shares it, expected none");
  EXPECT_EQ(status.hint(),
            "use uio:shared, too, or stop that process: `fuser " + uio + "` shows its number");
}

TEST(SharedDevice, TwoUsersOfABufferGetDifferentPartsOfIt) {
  const EmulatedFpga fpga;
  const auto one = *open_uio_memory(fpga.options());
  const auto two = *open_uio_memory(fpga.options());
  const Buffer first = *one->allocate(5000);
  {
    const Buffer second = *two->allocate(100);
    EXPECT_EQ(second.device_address(), first.device_address() + 8192);
    const Buffer third = *one->allocate(100);
    EXPECT_EQ(third.device_address(), first.device_address() + 8192 + 4096);
  }
  const Buffer large = *two->allocate(EmulatedFpga::kMemoryBytes - 8192);
  const Status full = one->allocate(1).status();
  EXPECT_EQ(full.code(), Code::kOutOfMemory);
  EXPECT_THAT(full.message(), HasSubstr("8192 of 16777216 bytes are in use by this process, and "
                                        "some by others"));
  EXPECT_EQ(full.hint(),
            "use fewer slots, stop other pipelines, or give the board a larger buffer");
}

TEST(SharedDevice, ADeadProcessesRunEndsBeforeItsMemoryIsUsedAgain) {
  const EmulatedFpga fpga;
  const Opened opened = Opened::on(fpga.options());
  const auto dead = *SharedTurns::open(fpga.folder() + "/dev/uio0", {.folder = fpga.folder()});
  {
    const Result<SharedTurns::Turn> turn = dead->take(Clock::now() + 20s);
    dead->begin_run();  // and never ends
  }
  EXPECT_EQ(opened.device->statistics().orphans, 0U);
  const Result<Buffer> buffer = opened.memory->allocate(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  EXPECT_EQ(opened.device->statistics().orphans, 1U);
  EXPECT_FALSE(dead->running());
}

TEST(SharedDevice, TheWaitForATurnIsCounted) {
  const EmulatedFpga fpga;
  const Opened opened = Opened::on(fpga.options());
  ProductProgram program(*opened.device);
  program.fill(1);
  program.write();
  std::chrono::nanoseconds waited{0};
  Submission submission = program.submission();
  submission.waited = &waited;
  ASSERT_TRUE(program.run_written(submission).ok());
  EXPECT_LT(waited, 20ms) << "nobody else uses it";
  const auto other = *SharedTurns::open(fpga.folder() + "/dev/uio0", {.folder = fpga.folder()});
  std::optional<SharedTurns::Turn> turn(*other->take(Clock::now() + 20s));
  std::thread late([&] {
    std::this_thread::sleep_for(30ms);
    turn.reset();
  });
  waited = 0ns;
  EXPECT_TRUE(program.run_written(submission).ok());
  late.join();
  EXPECT_GE(waited, 15ms);
  turn.emplace(*other->take(Clock::now() + 20s));
  submission.turn_deadline = Clock::now() + 5ms;
  EXPECT_EQ(program.run_written(submission).code(), Code::kDeadline);
}

}  // namespace
}  // namespace edgepipe
