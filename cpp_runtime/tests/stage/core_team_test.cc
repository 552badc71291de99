// A team runs every piece once, on its cores, and sleeps in between.
#include "stage/core_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"

namespace edgepipe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<CoreTeam> team_of(std::size_t threads) {
  Result<std::unique_ptr<CoreTeam>> team =
      CoreTeam::start({.name = "stage", .threads = threads, .cores = {}});
  EXPECT_TRUE(team.ok()) << team.status().message();
  return *std::move(team);
}

/// Counts the runs of each piece; pieces from `failing` on return their number as an error.
struct Pieces {
  explicit Pieces(std::size_t count) : runs(count), failing(count) {}

  static int run(void* context, std::size_t piece) {
    auto* const pieces = static_cast<Pieces*>(context);
    ++pieces->runs[piece];
    return piece < pieces->failing ? 0 : static_cast<int>(piece);
  }

  std::vector<std::atomic<int>> runs;
  std::size_t failing;
};

std::vector<int> counts(const Pieces& pieces) { return {pieces.runs.begin(), pieces.runs.end()}; }

/// Waits, so that every thread of a team gets a piece, and records the thread.
struct Meeting {
  struct Seen {
    std::string name;
    std::vector<int> cores;
  };

  explicit Meeting(std::size_t threads) : seen(threads) {}

  static int run(void* context, std::size_t piece) {
    auto* const meeting = static_cast<Meeting*>(context);
    ++meeting->come;
    while (meeting->come < meeting->seen.size()) std::this_thread::yield();
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    meeting->seen[piece] = {.name = name.data(), .cores = Thread::cores()};
    return 0;
  }

  std::vector<Seen> seen;
  std::atomic<std::size_t> come{0};
};

class CoreTeamTest : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, CoreTeamTest, ::testing::Values(1, 2, 3, 8));

TEST_P(CoreTeamTest, RunsEveryPieceOnceInEveryCall) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  EXPECT_EQ(team->threads(), GetParam());
  for (const std::size_t count : {0, 1, 2, 7, 64, 1000}) {
    Pieces pieces(count);
    for (int call = 1; call <= 200; ++call) {
      ASSERT_EQ(team->run(count, &Pieces::run, &pieces), 0);
      ASSERT_THAT(counts(pieces), Each(call)) << count << " pieces";
    }
  }
}

TEST_P(CoreTeamTest, SeesWhatTheCallerWroteAndTheCallerWhatItWrote) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  struct Values {
    std::array<int, 32> in{};  // neither is atomic
    std::array<int, 32> out{};
  } values;
  for (int call = 0; call < 2000; ++call) {
    values.in.fill(call);
    ASSERT_EQ(team->run(
                  values.in.size(),
                  [](void* context, std::size_t piece) {
                    auto* const found = static_cast<Values*>(context);
                    found->out[piece] = found->in[piece] + static_cast<int>(piece);
                    return 0;
                  },
                  &values),
              0);
    for (int piece = 0; piece < 32; ++piece) ASSERT_EQ(values.out[piece], call + piece);
  }
}

TEST_P(CoreTeamTest, ContinuesAfterEveryPause) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  Pieces pieces(5);
  for (int call = 1; call <= 20; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(call % 3));  // helpers fall asleep
    ASSERT_EQ(team->run(5, &Pieces::run, &pieces), 0);
    ASSERT_THAT(counts(pieces), Each(call));
  }
}

TEST_P(CoreTeamTest, AnErrorIsReturnedAndTheNextCallIsFree) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  Pieces pieces(64);
  pieces.failing = 40;
  for (int call = 0; call < 50; ++call) EXPECT_GE(team->run(64, &Pieces::run, &pieces), 40);
  Pieces good(64);
  EXPECT_EQ(team->run(64, &Pieces::run, &good), 0);
  EXPECT_THAT(counts(good), Each(1));
}

TEST_P(CoreTeamTest, EndsWhileItsHelpersStartPollOrSleep) {
  for (int round = 0; round < 50; ++round) {
    const std::unique_ptr<CoreTeam> team = team_of(GetParam());
    if (round % 5 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Pieces pieces(3);
    if (round % 2 == 1) EXPECT_EQ(team->run(3, &Pieces::run, &pieces), 0);
  }
}

TEST_P(CoreTeamTest, CallsAllocateNothing) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  Pieces pieces(64);
  EXPECT_EQ(team->run(64, &Pieces::run, &pieces), 0);
  const long before = conformance::allocation_count();
  for (int call = 0; call < 100; ++call) team->run(64, &Pieces::run, &pieces);
  EXPECT_EQ(conformance::allocation_count(), before);
}

// An exception would leave the other threads working on a call that has ended, or end the process.
TEST_P(CoreTeamTest, APieceWithoutMemoryFailsTheCall) {
  const std::unique_ptr<CoreTeam> team = team_of(GetParam());
  const auto hungry = [](void*, std::size_t) {
    conformance::fail_allocations(1);
    thread_local std::string kept;
    kept.assign(1000, 'x');
    kept.shrink_to_fit();
    return 0;
  };
  EXPECT_EQ(team->run(64, hungry, nullptr), ENOMEM);
  conformance::fail_allocations(0);
  Pieces pieces(64);
  EXPECT_EQ(team->run(64, &Pieces::run, &pieces), 0);
  EXPECT_THAT(counts(pieces), Each(1));
}

TEST(CoreTeam, EveryHelperIsNamedAndOnItsOwnCore) {
  const int first = Thread::cores().front();
  const int last = Thread::cores().back();
  Result<std::unique_ptr<CoreTeam>> team =
      CoreTeam::start({.name = "arm0", .threads = 3, .cores = {first, last, first}});
  ASSERT_TRUE(team.ok()) << team.status().message();
  Meeting meeting(3);
  ASSERT_EQ((*team)->run(3, &Meeting::run, &meeting), 0);
  const auto named = [&](const std::string& name) {
    const auto found = std::ranges::find(meeting.seen, name, &Meeting::Seen::name);
    return found == meeting.seen.end() ? std::vector<int>() : found->cores;
  };
  EXPECT_THAT(named("arm0.1"), ElementsAre(last));
  EXPECT_THAT(named("arm0.2"), ElementsAre(first));
}

TEST(CoreTeam, HasASensibleNumberOfThreads) {
  for (const std::size_t threads : {0, 65}) {
    const Status status = CoreTeam::start({.name = "arm0", .threads = threads}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "'arm0': found " + std::to_string(threads) + " threads, expected 1 to 64");
  }
}

TEST(CoreTeam, NeedsACoreForEveryThread) {
  const Status few = CoreTeam::start({.name = "arm0", .threads = 3, .cores = {0, 1}}).status();
  EXPECT_EQ(few.code(), Code::kInvalidArgument);
  EXPECT_EQ(few.message(), "'arm0': found 2 cores, expected one for each of 3 threads");
  const Status missing =
      CoreTeam::start({.name = "arm0", .threads = 2, .cores = {0, 1000}}).status();
  EXPECT_EQ(missing.code(), Code::kUnsupported);
  EXPECT_THAT(missing.message(), HasSubstr("thread 'arm0.1': core 1000 does not exist"));
}

TEST(CoreTeam, HelpsOneThreadAsLongAsTheMembershipLasts) {
  const std::unique_ptr<CoreTeam> team = team_of(2);
  EXPECT_EQ(CoreTeam::current(), nullptr);
  {
    const CoreTeam::Membership member(team.get());
    EXPECT_EQ(CoreTeam::current(), team.get());
    const CoreTeam::Membership alone(nullptr);
    EXPECT_EQ(CoreTeam::current(), nullptr);
    CoreTeam* elsewhere = team.get();
    std::thread([&] { elsewhere = CoreTeam::current(); }).join();
    EXPECT_EQ(elsewhere, nullptr);
  }
  EXPECT_EQ(CoreTeam::current(), nullptr);
}

}  // namespace
}  // namespace edgepipe
