#include "pipeline/live_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class LiveStatisticsTest : public ::testing::Test {
 protected:
  LiveStatisticsTest() { std::filesystem::create_directories(folder_); }
  ~LiveStatisticsTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LiveStatistics> start(LiveStatistics::Figures figures) const {
    return LiveStatistics::start(std::move(figures), {.folder = folder_, .period = 1ms});
  }

  static json read(const std::string& path) {
    std::ifstream file(path);
    return json::parse(file, nullptr, false);
  }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::string folder_ = ::testing::TempDir() + "/live_" + std::to_string(::getpid());
};

/// Waits for a condition; if it never holds, the runner's time limit ends the test.
template <typename Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

TEST_F(LiveStatisticsTest, PublishesAndRemovesOneJsonObject) {
  {
    const auto live = start([] { return std::string(R"({"network":"tiny"})"); });
    wait_for([&] { return std::filesystem::exists(live->path()); });
    const json found = read(live->path());
    EXPECT_EQ(found["version"], 1);
    EXPECT_EQ(found["pid"], ::getpid());
    EXPECT_EQ(found["id"].get<std::string>().rfind(std::to_string(::getpid()) + "-", 0), 0U);
    EXPECT_EQ(found["program"], "edgepipe-tests");
    EXPECT_GT(found["uptime_s"], 0);
    EXPECT_EQ(found["live"]["network"], "tiny");
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(LiveStatisticsTest, AReaderAlwaysFindsACompleteObject) {
  std::atomic<int> size{1};
  const auto live = start([&] {
    size = size * 7 % 30'011;  // texts of varying lengths
    return "\"" + std::string(static_cast<std::size_t>(size), 'x') + "\"";
  });
  wait_for([&] { return std::filesystem::exists(live->path()); });
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(read(live->path()).is_discarded());
}

TEST_F(LiveStatisticsTest, PipelinesOfOneProcessHaveSeparateFiles) {
  const auto one = start([] { return std::string("1"); });
  const auto other = start([] { return std::string("2"); });
  wait_for([&] { return files() >= 2; });
  EXPECT_NE(one->path(), other->path());
}

TEST_F(LiveStatisticsTest, WhatAKilledProcessLeftIsRemovedByALaterOne) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string orphan = folder_ + "/edgepipe-" + std::to_string(child) + "-0.json";
  // A process in another PID namespace, as of a container that shares the folder, is unknown here.
  const std::string elsewhere = folder_ + "/edgepipe-" + std::to_string(child) + "-1.json";
  const std::string alive = folder_ + "/edgepipe-" + std::to_string(::getppid()) + "-0.json";
  const std::string foreign = folder_ + "/edgepipe-notes.json";
  for (const std::string& path : {orphan, elsewhere, alive, foreign}) std::ofstream(path) << "{}";
  for (const std::string& path : {orphan, alive, foreign}) {
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - 11s);
  }
  const auto live = start([] { return std::string("1"); });
  wait_for([&] { return !std::filesystem::exists(orphan); });
  wait_for([&] { return std::filesystem::exists(live->path()); });
  EXPECT_TRUE(std::filesystem::exists(elsewhere));
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(LiveStatisticsTest, AFailedAllocationSkipsOneObject) {
  std::atomic<int> calls{0};
  const auto live = start([&]() -> std::string {
    if (calls++ == 0) throw std::bad_alloc();
    return "1";
  });
  wait_for([&] { return std::filesystem::exists(live->path()); });
  EXPECT_GE(calls, 2);
}

TEST_F(LiveStatisticsTest, AMissingFolderIsNotAnError) {
  const auto live = LiveStatistics::start([] { return std::string("1"); },
                                          {.folder = "/nowhere/at/all", .period = 1ms});
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(std::filesystem::exists(live->path()));
}

TEST_F(LiveStatisticsTest, FiguresNameNetworkDevicePipelineAndBoard) {
  PipelineStatistics statistics;
  statistics.submitted = 7;
  statistics.slots = 5;
  const BoardReading board{
      .temperatures = {{.sensor = "thermal_zone0", .type = "cpu-thermal", .celsius = 41.5}},
      .cores = 4,
      .processor_load = 0.25};
  const json found = json::parse(live_figures("tiny", "simulator", statistics, board));
  EXPECT_EQ(found["network"], "tiny");
  EXPECT_EQ(found["device"], "simulator");
  EXPECT_EQ(found["pipeline"]["submitted"], 7);
  EXPECT_EQ(found["pipeline"]["slots"], 5);
  EXPECT_EQ(found["board"].dump(),
            R"({"cores":4,"processor_load":0.25,"program_load":null,"temperatures":)"
            R"([{"celsius":41.5,"sensor":"thermal_zone0","type":"cpu-thermal"}]})");
}

}  // namespace
}  // namespace edgepipe
