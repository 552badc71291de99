// Threads of a pipeline as the kernel sees them: their cores and names.
#include "edgepipe/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <string>
#include <vector>

#include "pipeline_test_stages.h"

namespace edgepipe {
namespace {

using ::testing::ElementsAre;

struct Seen {
  std::string name;
  std::vector<int> cores;
};

/// What the kernel says of the calling thread.
Seen this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return {.name = name.data(), .cores = Thread::cores()};
}

FunctionStage::Body look(Seen& seen) {
  return [&seen](testing::Buffers, testing::Buffers) {
    seen = this_thread();
    return Status();
  };
}

/// Runs a frame through two stages that look at the thread they are on.
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

TEST(ThreadTest, StagesOfASerialPipelineShareOnePinnedThread) {
  const int last = Thread::cores().back();
  for (const Seen& seen :
       run_two_stages({.mode = Pipeline::Mode::kSerial, .threads = {{.cores = {last}}}})) {
    EXPECT_EQ(seen.name, "serial");
    EXPECT_THAT(seen.cores, ElementsAre(last));
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

}  // namespace
}  // namespace edgepipe
