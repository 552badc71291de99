#include "base/board_readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

namespace edgepipe {
namespace {

using ::testing::DoubleEq;
using ::testing::Optional;
using namespace std::chrono_literals;

class BoardReadingsTest : public ::testing::Test {
 protected:
  BoardReadingsTest() : folder_(std::filesystem::path(::testing::TempDir()) / "readings") {
    write("sys/class/thermal/thermal_zone0/temp", "41500");
    write("sys/class/thermal/thermal_zone0/type", "cpu-thermal");
  }
  ~BoardReadingsTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << "\n";
  }

  [[nodiscard]] BoardReadings::Options options(std::chrono::milliseconds period) const {
    return {.system = folder_ / "sys", .processor = folder_ / "stat", .period = period};
  }

  const std::filesystem::path folder_;
};

TEST_F(BoardReadingsTest, TheLoadIsTheBusyShareOfTheTimeBetweenTwoReadings) {
  BoardReadings board(options(0ms));
  write("stat", "cpu 1000 10 200 5000 300 20 30 40 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10");
  EXPECT_EQ(board.read().processor_load, std::nullopt) << "nothing to compare with";
  // Of 100 ticks more, 15 in user, 2 nice, 3 system, 60 idle, 10 iowait, 1 irq, 4 softirq, 5 steal.
  write("stat", "cpu 1015 12 203 5060 310 21 34 45 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10");
  EXPECT_THAT(board.read().processor_load, Optional(DoubleEq(0.3)));
}

TEST_F(BoardReadingsTest, ALoadThatCannotBeReadIsUnknown) {
  BoardReadings board(options(0ms));
  EXPECT_EQ(board.read().processor_load, std::nullopt);
  write("stat", "cpu 1 2 3");
  EXPECT_EQ(board.read().processor_load, std::nullopt);
  write("stat", "intr 1 2 3 4 5 6 7 8");
  EXPECT_EQ(board.read().processor_load, std::nullopt);
  EXPECT_EQ(BoardReadings(options(0ms)).read().temperatures.size(), 1U);
}

TEST_F(BoardReadingsTest, CountsThatGoBackGiveNoLoad) {
  BoardReadings board(options(0ms));
  write("stat", "cpu 100 0 0 100 0 0 0 0");
  board.read();
  write("stat", "cpu 90 0 0 150 0 0 0 0");
  EXPECT_EQ(board.read().processor_load, std::nullopt);
}

TEST_F(BoardReadingsTest, TheKernelIsAskedOncePerPeriod) {
  BoardReadings board(options(1h));
  EXPECT_DOUBLE_EQ(board.read().temperatures.at(0).celsius, 41.5);
  write("sys/class/thermal/thermal_zone0/temp", "60000");
  EXPECT_DOUBLE_EQ(board.read().temperatures.at(0).celsius, 41.5);
  BoardReadings eager(options(0ms));
  EXPECT_DOUBLE_EQ(eager.read().temperatures.at(0).celsius, 60);
}

TEST(BoardReadings, ABusyProgramHasItsShareOfThisMachine) {
  BoardReadings board({.period = 50ms});
  EXPECT_EQ(board.read().program_load, std::nullopt);
  const Clock::time_point end = Clock::now() + 400ms;
  volatile std::uint64_t count = 0;
  while (Clock::now() < end) count = count + 1;
  const BoardReading reading = board.read();
  ASSERT_GT(reading.cores, 0U);
  ASSERT_TRUE(reading.program_load && reading.processor_load);
  EXPECT_GT(*reading.program_load, 0);
  EXPECT_LE(*reading.program_load, 1.0);
  EXPECT_GT(*reading.processor_load, 0);
}

}  // namespace
}  // namespace edgepipe
