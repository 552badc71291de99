#include "pipeline/wait_history.h"

#include <gtest/gtest.h>

#include <chrono>

namespace edgepipe {
namespace {

using namespace std::chrono_literals;

void add(WaitHistory& history, int times, Clock::duration wait) {
  for (int i = 0; i < times; ++i) history.add(wait);
}

/// Adds short waits until they are all short again; returns how many that took.
int short_waits_needed(WaitHistory& history) {
  int needed = 0;
  for (; !history.all_short(); ++needed) history.add(1us);
  return needed;
}

TEST(WaitHistoryTest, EightShortWaitsInARowAreEnough) {
  WaitHistory history(100us);
  add(history, 7, 99us);
  EXPECT_FALSE(history.all_short());
  history.add(99us);
  EXPECT_TRUE(history.all_short());
  add(history, 1000, 1us);
  EXPECT_TRUE(history.all_short());
}

TEST(WaitHistoryTest, OneLongWaitStartsTheCountAgain) {
  WaitHistory history(100us);
  add(history, 100, 1us);
  history.add(100us);
  EXPECT_FALSE(history.all_short());
  EXPECT_EQ(short_waits_needed(history), 8);
}

TEST(WaitHistoryTest, FailuresInARowAreRetriedMoreAndMoreRarely) {
  WaitHistory history(100us);
  add(history, 8, 1us);
  for (const int needed : {8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024}) {
    history.judge(false);
    EXPECT_EQ(short_waits_needed(history), needed);
  }
  history.judge(true);
  EXPECT_TRUE(history.all_short()) << "a success changes nothing but the count of failures";
  history.judge(false);
  EXPECT_EQ(short_waits_needed(history), 8);
}

TEST(WaitHistoryTest, LongWaitsDoNotShortenAPause) {
  WaitHistory history(100us);
  add(history, 8, 1us);
  history.judge(false);
  history.judge(false);
  add(history, 100, 1s);
  EXPECT_EQ(short_waits_needed(history), 16);
}

}  // namespace
}  // namespace edgepipe
