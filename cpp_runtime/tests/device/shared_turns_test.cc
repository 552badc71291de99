// SharedTurns: fair, with priorities and deadlines, whatever happens to a process that has a turn
// or waits for one.
#include "device/shared_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "edgepipe/sync.h"
#include "support/forked_process.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::ForkedProcess;
using ::testing::HasSubstr;

class SharedTurnsTest : public ::testing::Test {
 protected:
  SharedTurnsTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(device_).put('\0');
  }
  ~SharedTurnsTest() override { std::filesystem::remove_all(folder_); }

  static Clock::time_point soon() { return Clock::now() + 20s; }

  /// One more user of the device. Locks belong to open files, so threads are as good as processes.
  std::unique_ptr<SharedTurns> join(int priority = 0,
                                    std::chrono::milliseconds stalled = 20s) const {
    return *SharedTurns::open(device_,
                              {.priority = priority, .folder = folder_, .stalled = stalled});
  }

  /// A thread that wants a turn; it is in the queue when this returns.
  std::thread want(SharedTurns& turns, int number) {
    std::atomic<bool> asks{false};
    std::thread thread([&, number] {
      asks = true;
      const Result<SharedTurns::Turn> turn = turns.take(soon());
      ASSERT_TRUE(turn.ok()) << turn.status().message();
      MutexLock lock(mutex_);  // TSan does not know the kernel's locks
      order_.push_back(number);
    });
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(15ms);
    return thread;
  }

  std::vector<int> order() {
    MutexLock lock(mutex_);
    return order_;
  }

  std::filesystem::path page() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("edgepipe-turns-")) return entry.path();
    }
    return {};
  }

  const std::string folder_ = ::testing::TempDir() + "turns_" + std::to_string(::getpid());
  const std::string device_ = folder_ + "/uio0";
  Mutex mutex_;
  std::vector<int> order_ EDGEPIPE_GUARDED_BY(mutex_);
};

TEST_F(SharedTurnsTest, AmongEqualsTheFirstToComeIsServedFirst) {
  const auto one = join();
  const auto two = join();
  const auto three = join();
  std::optional<SharedTurns::Turn> first(*one->take(soon()));
  std::thread second = want(*two, 2);
  std::thread third = want(*three, 3);
  first.reset();
  // One that asks again after its turn comes after all that wait.
  const Result<SharedTurns::Turn> again = one->take(soon());
  EXPECT_THAT(order(), ElementsAre(2, 3));
  second.join();
  third.join();
}

TEST_F(SharedTurnsTest, HigherPrioritiesAreServedFirst) {
  const auto one = join();
  const auto low = join(-1);
  const auto usual = join();
  const auto high = join(9);
  std::optional<SharedTurns::Turn> first(*one->take(soon()));
  std::thread a = want(*low, 3);
  std::thread b = want(*usual, 2);
  std::thread c = want(*high, 1);
  first.reset();
  a.join();
  b.join();
  c.join();
  EXPECT_THAT(order(), ElementsAre(1, 2, 3));
}

TEST_F(SharedTurnsTest, AWaitEndsAtItsDeadlineAndNamesTheHolder) {
  const auto one = join();
  const auto two = join();
  std::optional<SharedTurns::Turn> first(*one->take(soon()));
  const Status late = two->take(Clock::now() + 5ms).status();
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_THAT(late.message(), HasSubstr("no turn on the device before the deadline: process " +
                                        std::to_string(::getpid()) + " had the last one"));
  EXPECT_EQ(late.hint(), "allow the device more time, or give it fewer stages and pipelines");
  first.reset();
  EXPECT_TRUE(two->take(Clock::now()).ok()) << "it left the queue, and nobody has the device";
}

TEST_F(SharedTurnsTest, ARemovedPageIsReplacedByOneForAll) {
  const auto one = join();
  const auto two = join();
  {
    const Result<SharedTurns::Turn> turn = one->take(soon());
    one->begin_run();  // and dies, as far as the others can see
  }
  std::filesystem::remove(page());
  const auto three = join();
  EXPECT_FALSE(three->interrupted()) << "nobody has told the new page";
  std::optional<SharedTurns::Turn> first(*two->take(soon()));
  EXPECT_TRUE(three->interrupted()) << "two knew it";
  two->end_run();
  std::thread second = want(*three, 1);
  std::thread third = want(*one, 2);
  first.reset();
  second.join();
  third.join();
  EXPECT_THAT(order(), ElementsAre(1, 2));
}

TEST_F(SharedTurnsTest, APageRemovedDuringAWaitIsFollowed) {
  const auto one = join();
  const auto two = join();
  std::optional<SharedTurns::Turn> first(*one->take(soon()));
  std::thread second = want(*two, 1);
  std::filesystem::remove(page());
  std::this_thread::sleep_for(10ms);
  first.reset();
  second.join();
  EXPECT_TRUE(one->take(soon()).ok());
  EXPECT_FALSE(page().empty());
}

TEST_F(SharedTurnsTest, APageThatIsNoFileIsRefused) {
  join();
  const std::filesystem::path name = page();
  std::filesystem::remove(name);
  std::filesystem::create_symlink("/dev/zero", name);
  const Status status = SharedTurns::open(device_, {.folder = folder_}).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr(name.string() + ": Too many levels of symbolic links"));
}

TEST_F(SharedTurnsTest, EverySeatCanBeTakenAndIsFreedAtTheEnd) {
  std::vector<std::unique_ptr<SharedTurns>> all;
  for (int n = 0; n < 64; ++n) all.push_back(join());
  const Status full = SharedTurns::open(device_, {.folder = folder_}).status();
  EXPECT_THAT(full.message(), HasSubstr("found 64 users that share it, expected fewer"));
  all.erase(all.begin());
  EXPECT_TRUE(SharedTurns::open(device_, {.folder = folder_}).ok());
}

TEST_F(SharedTurnsTest, AKilledHolderFreesTheDeviceAtOnceAndTheNextOneIsTold) {
  const auto turns = join();
  for (int round = 0; round < 50; ++round) {
    auto* const has_it = static_cast<std::atomic<bool>*>(::mmap(nullptr, sizeof(std::atomic<bool>),
                                                                PROT_READ | PROT_WRITE,
                                                                MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ForkedProcess holder([&](const std::string&) {
      const auto own = join();
      const Result<SharedTurns::Turn> turn = own->take(soon());
      if (round % 2 == 0) own->begin_run();
      *has_it = true;
      ::pause();
      return 0;
    });
    holder.say("go");
    while (!*has_it) std::this_thread::yield();
    ::munmap(has_it, sizeof(std::atomic<bool>));
    ASSERT_EQ(turns->take(Clock::now()).status().code(), Code::kDeadline);
    holder.signal(SIGKILL);
    const Result<SharedTurns::Turn> turn = turns->take(soon());
    ASSERT_TRUE(turn.ok()) << turn.status().message();
    EXPECT_EQ(turns->interrupted(), round % 2 == 0);
    turns->end_run();
  }
}

TEST_F(SharedTurnsTest, OneThatDiesOrStopsInTheQueueIsPassedOver) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const auto one = join();
    const auto two = join(0, 30ms);
    ForkedProcess waiting([this](const std::string&) {
      const auto own = join(5);  // served before `two`
      return own->take(soon()).ok() ? 0 : 1;
    });
    std::optional<SharedTurns::Turn> first(*one->take(soon()));
    waiting.say("go");
    std::this_thread::sleep_for(50ms);
    waiting.signal(signal);
    std::thread next = want(*two, signal);
    first.reset();
    next.join();
    if (signal == SIGSTOP) {
      waiting.signal(SIGCONT);
      EXPECT_EQ(waiting.wait(), 0) << "it draws another ticket";
    }
  }
  EXPECT_THAT(order(), ElementsAre(SIGKILL, SIGSTOP));
}

}  // namespace
}  // namespace edgepipe
