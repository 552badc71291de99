// Threads of a pipeline as the kernel sees them: their cores and names.
#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <string>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"
#include "stage/core_team.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using ::testing::ElementsAre;

struct Seen {
  std::string name;
  std::vector<int> cores;
  int priority = 0;         // 0: the normal scheduler
  std::size_t threads = 1;  // that share its loops
};

/// The kernel's view of the calling thread, and its core team.
Seen this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  sched_param parameters{};
  sched_getparam(0, &parameters);
  return {.name = name.data(),
          .cores = Thread::cores(),
          .priority = sched_getscheduler(0) == SCHED_FIFO ? parameters.sched_priority : 0,
          .threads = CoreTeam::current() == nullptr ? 1 : CoreTeam::current()->threads()};
}

FunctionStage::Body look(Seen& seen) {
  return [&seen](testing::Buffers, testing::Buffers) {
    seen = this_thread();
    return Status();
  };
}

/// Runs a frame through two stages that examine their thread.
std::array<Seen, 2> run_two_stages(const Pipeline::Options& options) {
  std::array<Seen, 2> seen;
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  Result<std::unique_ptr<Pipeline>> made =
      Pipeline::create(testing::chain({look(seen[0]), look(seen[1])}), *memory, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(testing::submit(**made, 1).ok());
  EXPECT_TRUE((*made)->next(testing::soon()).ok());
  return seen;
}

/// The same with one stage, in a pipeline that stays open.
Result<std::unique_ptr<Pipeline>> run_one_stage(Seen& seen, HostMemory& memory,
                                                const Pipeline::Options& options) {
  Result<std::unique_ptr<Pipeline>> made =
      Pipeline::create(testing::chain({look(seen)}), memory, options);
  if (!made.ok()) return made;
  EXPECT_TRUE(testing::submit(**made, 1).ok());
  EXPECT_TRUE((*made)->next(testing::soon()).ok());
  return made;
}

TEST(ThreadTest, AStageWithSeveralThreadsHasATeamAndIsOnItsFirstCore) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  const std::vector<int> cores = {Thread::cores().back(), Thread::cores().front()};
  Seen seen;
  const auto made = run_one_stage(seen, *memory, {.threads = {{.cores = cores, .threads = 2}}});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(seen.threads, 2u);
  EXPECT_THAT(seen.cores, ElementsAre(cores[0]));
  EXPECT_EQ((*made)->statistics().stages[0].cores, cores);
  ASSERT_TRUE((*made)->stop(testing::soon()).ok());
  seen = {};
  ASSERT_TRUE((*made)->restart(testing::soon()).ok());
  ASSERT_TRUE(testing::submit(**made, 1).ok());
  ASSERT_TRUE((*made)->next(testing::soon()).ok());
  EXPECT_EQ(seen.threads, 2u) << "a restarted pipeline has its teams again";
}

TEST(ThreadTest, ATeamThatCannotBePinnedIsAnErrorOrRunsAnywhere) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  Seen seen;
  Pipeline::Options options{.threads = {{.cores = {Thread::cores().front(), 1000}, .threads = 2}}};
  EXPECT_EQ(run_one_stage(seen, *memory, options).status().code(), Code::kUnsupported);
  options.pinning = Pipeline::Pinning::kPreferred;
  const auto made = run_one_stage(seen, *memory, options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(seen.threads, 2u);
  EXPECT_EQ(seen.cores, Thread::cores());
}

TEST(ThreadTest, EveryStageRunsOnItsOwnCoreUnderItsOwnName) {
  const int first = Thread::cores().front();
  const int last = Thread::cores().back();
  const std::array<Seen, 2> seen =
      run_two_stages({.threads = {{.cores = {last}}, {.cores = {first}}}});
  EXPECT_EQ(seen[0].name, "stage0");
  EXPECT_EQ(seen[1].name, "stage1");
  EXPECT_THAT(seen[0].cores, ElementsAre(last));
  EXPECT_THAT(seen[1].cores, ElementsAre(first));
}

TEST(ThreadTest, APriorityOverridesWhatTheThreadsSay) {
  const std::vector<Pipeline::StageThread> threads = {{.cores = {}, .realtime_priority = 5}};
  for (const Seen& seen : run_two_stages({.threads = threads, .realtime_priority = 0})) {
    EXPECT_EQ(seen.priority, 0);
  }
}

TEST(ThreadTest, APriorityIsTakenOrTheLimitThatForbidsItIsNamed) {
  int priority = -1;
  Result<Thread> thread = Thread::start({.name = "urgent", .cores = {}, .realtime_priority = 7},
                                        [&priority] { priority = this_thread().priority; });
  if (thread.ok()) {
    thread->join();
    EXPECT_EQ(priority, 7);
  } else {
    EXPECT_THAT(thread.status().message(),
                ::testing::HasSubstr("the rtprio limit of this process"));
    EXPECT_EQ(priority, -1);
  }
}

TEST(ThreadTest, StagesOfASerialPipelineShareOnePinnedThread) {
  const int last = Thread::cores().back();
  for (const Seen& seen :
       run_two_stages({.mode = Pipeline::Mode::kSerial, .threads = {{.cores = {last}}}})) {
    EXPECT_EQ(seen.name, "serial");
    EXPECT_THAT(seen.cores, ElementsAre(last));
  }
}

TEST(ThreadTest, StagesOfASerialPipelineKeepTheirOwnHelpers) {
  const int first = Thread::cores().front();
  const int last = Thread::cores().back();
  for (const std::size_t shared : {0, 1}) {
    std::vector<Pipeline::StageThread> threads(2, {.cores = {first}});
    threads[shared] = {.cores = {last, first}, .threads = 2};
    const std::array<Seen, 2> seen =
        run_two_stages({.mode = Pipeline::Mode::kSerial, .threads = threads});
    for (const std::size_t stage : {0, 1}) {
      EXPECT_EQ(seen[stage].name, "serial");
      EXPECT_THAT(seen[stage].cores, ElementsAre(threads[0].cores.front()));
      EXPECT_EQ(seen[stage].threads, threads[stage].threads) << "as in a pipelined run";
    }
  }
}

TEST(ThreadTest, AnUnpinnedStageMayRunOnEveryCoreOfTheProcess) {
  for (const Seen& seen : run_two_stages({.pinning = Pipeline::Pinning::kOff})) {
    EXPECT_EQ(seen.cores, Thread::cores());
  }
}

TEST(ThreadTest, ALongNameIsCutToWhatTheKernelKeeps) {
  Seen seen;
  Result<Thread> thread = Thread::start({.name = "a_name_of_some_length", .cores = {}},
                                        [&seen] { seen = this_thread(); });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(seen.name, "a_name_of_some_");
}

TEST(ThreadTest, AFailedAllocationEndsTheThreadAndIsReported) {
  std::string kept;
  bool starved = false;
  bool went_on = false;
  Result<Thread> thread = Thread::start(
      {.name = "hungry", .cores = {}},
      [&] {
        conformance::fail_allocations(1);
        kept.assign(1000, 'x');
        went_on = true;
      },
      [&] { starved = true; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_TRUE(starved);
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace edgepipe
