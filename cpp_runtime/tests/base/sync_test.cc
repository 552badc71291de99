// Waits follow the monotonic clock, even if the wall clock is set.
#include "edgepipe/sync.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace edgepipe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Waits for `time` from now, regardless of notifications; returns how long this took.
Clock::duration wait_for(Clock::duration time) {
  Mutex mutex;
  CondVar never;
  const Clock::time_point start = Clock::now();
  MutexLock lock(mutex);
  while (never.wait_until(lock, start + time)) {
  }
  return Clock::now() - start;
}

/// Sets the wall clock `by` seconds ahead of the monotonic one; false without the right to do so.
bool shift_wall_clock(seconds by) {
  timeval now{};
  gettimeofday(&now, nullptr);
  now.tv_sec += static_cast<time_t>(by.count());
  return settimeofday(&now, nullptr) == 0;
}

TEST(SyncTest, AWaitEndsAtItsDeadline) {
  EXPECT_GE(wait_for(milliseconds(60)), milliseconds(60));
  EXPECT_LT(wait_for(-seconds(1)), seconds(5));
}

TEST(SyncTest, ADeadlineBeforeTheClockBeganHasPassed) {
  EXPECT_LT(wait_for(Clock::time_point(milliseconds(-1500)) - Clock::now()), seconds(5));
}

TEST(SyncTest, NotifyEndsAWaitWithoutADeadlineThatComes) {
  for (const Clock::time_point deadline : {far_future(), Clock::time_point::max()}) {
    Mutex mutex;
    CondVar changed;
    bool done = false;
    std::thread notifier([&] {
      const MutexLock lock(mutex);
      done = true;
      changed.notify();
    });
    {
      MutexLock lock(mutex);
      while (!done) EXPECT_TRUE(changed.wait_until(lock, deadline));
    }
    notifier.join();
  }
}

// Sets the clock of the whole machine, so it runs on the virtual board
// (tests/board/test_board_clock.py).
TEST(SyncTest, SettingTheWallClockChangesNoWait) {
  if (std::getenv("EDGEPIPE_TEST_SETS_CLOCK") == nullptr) {
    GTEST_SKIP() << "EDGEPIPE_TEST_SETS_CLOCK is not set";
  }
  for (const seconds by : {seconds(3600), seconds(-3600)}) {
    std::thread setter([by] {
      std::this_thread::sleep_for(milliseconds(300));
      ASSERT_TRUE(shift_wall_clock(by)) << "needs the right to set the clock";
    });
    const Clock::duration waited = wait_for(seconds(2));
    setter.join();
    EXPECT_GE(waited, seconds(2));
    EXPECT_LT(waited, seconds(20));
  }
}

}  // namespace
}  // namespace edgepipe
