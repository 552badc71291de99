// Turns: fair, with deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "edgepipe/device.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

Clock::time_point soon() { return Clock::now() + 20s; }

/// Waits long enough for a thread that has announced itself to be in the queue.
void let_it_queue(const std::atomic<int>& announced, int count) {
  while (announced < count) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
}

TEST(TurnsTest, TheyAreGivenInTheOrderOfArrival) {
  Turns turns;
  std::vector<int> order;  // written only by the holder of the turn
  std::atomic<int> announced{0};
  std::optional<Turns::Turn> first(*turns.take(soon()));
  const auto join = [&](int number) {
    return std::thread([&, number] {
      ++announced;
      const Result<Turns::Turn> turn = turns.take(soon());
      ASSERT_TRUE(turn.ok());
      order.push_back(number);
    });
  };
  std::thread second = join(2);
  let_it_queue(announced, 1);
  std::thread third = join(3);
  let_it_queue(announced, 2);
  first.reset();
  // A thread that asks again after its turn comes after all waiting threads.
  const Result<Turns::Turn> again = turns.take(soon());
  order.push_back(1);
  EXPECT_THAT(order, ElementsAre(2, 3, 1));
  second.join();
  third.join();
}

TEST(TurnsTest, AWaiterThatGivesUpLearnsHowManyWereAheadAndLeavesTheQueue) {
  Turns turns;
  std::optional<Turns::Turn> first(*turns.take(soon()));
  std::atomic<int> announced{0};
  std::atomic<bool> served{false};
  std::thread second([&] {
    ++announced;
    served = turns.take(soon()).ok();
  });
  let_it_queue(announced, 1);
  const Status late = turns.take(Clock::now() + 1ms).status();
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_EQ(late.message(), "no turn on the device before the deadline: 2 runs were ahead");
  EXPECT_EQ(late.hint(), "allow the device more time, or give it fewer stages and pipelines");
  first.reset();
  second.join();
  EXPECT_TRUE(served);
  EXPECT_TRUE(turns.take(Clock::now()).ok()) << "nobody is left";
}

TEST(TurnsTest, OnlyOneHasATurnAtATime) {
  Turns turns;
  int inside = 0;
  int most = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const Result<Turns::Turn> turn = turns.take(soon());
        ASSERT_TRUE(turn.ok());
        most = std::max(most, ++inside);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace edgepipe
