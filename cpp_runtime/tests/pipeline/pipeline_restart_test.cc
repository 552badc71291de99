// Restarting a pipeline after its end, and waiting for frames without ending it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>

#include "base/thread.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using testing::affine;
using testing::Buffers;
using testing::chain;
using ::testing::HasSubstr;
using testing::number;
using testing::soon;
using testing::submit;
using testing::value;

class PipelineRestartTest : public testing::PipelineModeTest {
 protected:
  static void expect_fresh(Pipeline& pipeline, std::int64_t input, std::int64_t output) {
    Result<std::uint64_t> id = submit(pipeline, input);
    ASSERT_TRUE(id.ok()) << id.status().message();
    EXPECT_EQ(*id, 0u);
    Result<OutputFrame> frame = pipeline.next(soon());
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(frame->id(), 0u);
    EXPECT_EQ(number(frame->output(0)), output);
    EXPECT_EQ(pipeline.statistics().submitted, 1u);
    EXPECT_EQ(pipeline.statistics().stages[0].busy.count, 1u);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PipelineRestartTest, testing::modes(), testing::mode_name);

TEST_P(PipelineRestartTest, AStoppedPipelineRunsAgainFromFrameZero) {
  const auto pipeline = make(chain({affine(2), affine(3)}));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < round % 4; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
    ASSERT_TRUE(pipeline->stop(soon()).ok());
    ASSERT_TRUE(pipeline->restart(soon()).ok());
  }
  expect_fresh(*pipeline, 5, 34);
}

TEST_P(PipelineRestartTest, AFailedPipelineRunsAgain) {
  const auto pipeline = make(chain({[](Buffers in, Buffers out) {
    if (value(in[0]) == 13) return Status(Code::kDevice, "unlucky");
    value(out[0]) = value(in[0]);
    return Status();
  }}));
  ASSERT_TRUE(submit(*pipeline, 13).ok());
  EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kDevice);
  ASSERT_TRUE(pipeline->restart(soon()).ok());
  expect_fresh(*pipeline, 14, 14);
}

TEST_P(PipelineRestartTest, ACancelledPipelineRunsAgainOnceItsStagesHaveReturned) {
  std::atomic<bool> open{false};
  std::atomic<bool> reached{false};
  const auto pipeline = make(chain({[&](Buffers in, Buffers out) {
    reached = true;
    reached.notify_all();
    open.wait(false);
    value(out[0]) = value(in[0]);
    return Status();
  }}));
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  reached.wait(false);
  pipeline->cancel();
  const Status late = pipeline->restart(Clock::now() + 5ms);
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_EQ(late.message(),
            "the pipeline has not ended before the deadline: frame 0 is held by stage 0 'stage0'");
  EXPECT_EQ(late.hint(), "allow more time");
  open = true;
  open.notify_all();
  ASSERT_TRUE(pipeline->restart(soon()).ok());
  expect_fresh(*pipeline, 7, 7);
}

TEST_P(PipelineRestartTest, ARunningPipelineOrATakenFrameIsRefused) {
  const auto pipeline = make(chain({affine(1)}));
  EXPECT_EQ(pipeline->restart(soon()).message(),
            "the pipeline is running; stop or cancel it first");
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  {
    Result<OutputFrame> kept = pipeline->next(soon());
    ASSERT_TRUE(kept.ok());
    ASSERT_TRUE(pipeline->stop(soon()).ok());
    EXPECT_EQ(pipeline->restart(soon()).message(), "1 frames have been taken and not released");
  }
  ASSERT_TRUE(pipeline->restart(soon()).ok());
  expect_fresh(*pipeline, 1, 2);
}

TEST_P(PipelineRestartTest, DrainWaitsForSubmittedFramesAndThePipelineContinues) {
  const auto pipeline = make(chain({affine(1), affine(1)}), 4);
  EXPECT_TRUE(pipeline->drain(Clock::now()).ok()) << "nothing is in flight";
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
    ASSERT_TRUE(pipeline->drain(soon()).ok());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(pipeline->next(Clock::now()).ok());
  }
}

TEST_P(PipelineRestartTest, DrainReportsWhatDelaysItAndWhatFailed) {
  std::atomic<bool> open{false};
  const auto pipeline = make(chain({[&](Buffers, Buffers) {
    open.wait(false);
    return Status(Code::kDevice, "broken");
  }}));
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  const Status late = pipeline->drain(Clock::now() + 5ms);
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_THAT(late.message(), HasSubstr("frames are unfinished at the deadline: frame 0"));
  open = true;
  open.notify_all();
  EXPECT_EQ(pipeline->drain(soon()).message(), "stage 0 'stage0' at frame 0: broken");
}

TEST_P(PipelineRestartTest, ARestartThatCannotPinItsThreadsMayBeTriedAgain) {
  const int here = Thread::cores().front();
  const int there = Thread::cores().back();
  if (here == there) GTEST_SKIP() << "a core can be taken away only where there are two";
  Result<std::unique_ptr<Pipeline>> pipeline =
      create(chain({affine(1), affine(2)}), {.threads = {{.cores = {there}}}});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  (*pipeline)->cancel();
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(here), &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  EXPECT_EQ((*pipeline)->restart(soon()).code(), Code::kUnsupported);
  EXPECT_EQ(submit(**pipeline, 1).status().code(), Code::kCancelled);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  const Status again = (*pipeline)->restart(Clock::now() + 2s);
  ASSERT_TRUE(again.ok()) << again.message();
  expect_fresh(**pipeline, 1, (1 * 1 + 1) * 2 + 1);
}

TEST_P(PipelineRestartTest, AStageWithoutCoresIsLeftUnpinned) {
  const int core = Thread::cores().front();
  Result<std::unique_ptr<Pipeline>> pipeline =
      create(chain({affine(1), affine(1)}), {.threads = {{}, {.cores = {core}}}});
  ASSERT_TRUE(pipeline.ok());
  const std::vector<StageStatistics> stages = (*pipeline)->statistics().stages;
  if (GetParam() == testing::Threads::kEach) {
    EXPECT_EQ(stages[1].cores, std::vector{core});
  }
  EXPECT_EQ(stages[0].cores, std::vector<int>{}) << "one of its threads may run anywhere";
}

}  // namespace
}  // namespace edgepipe
