#include "pipeline/frame_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using testing::affine;
using testing::Buffers;
using testing::chain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::number;
using testing::value;
using namespace std::chrono_literals;

/// Needs more memory than is available for its sixth frame.
class HungryStage final : public Stage {
 public:
  [[nodiscard]] std::string_view name() const override { return "hungry"; }
  Status bind(std::size_t /*slot*/, std::span<const BufferView> /*inputs*/,
              std::span<const BufferView> /*outputs*/) override {
    return {};
  }
  Status run(std::size_t /*slot*/) override {
    if (++runs_ > 5) throw std::bad_alloc();
    return {};
  }

 private:
  int runs_ = 0;
};

class FrameLoopTest : public ::testing::Test {
 protected:
  Pipeline& start(Graph graph) {
    pipeline_ = *Pipeline::create(std::move(graph), *memory_, {});
    return *pipeline_;
  }

  /// Submits 0, 1, 2, ... up to `count`, and records the results.
  FrameLoop counting(std::int64_t count) {
    FrameLoop loop;
    loop.fill = [this, count](const InputFrame& frame) -> Result<bool> {
      if (sent_ == count) return false;
      std::memcpy(frame.input(0).data(), &sent_, sizeof(sent_));
      ++sent_;
      return true;
    };
    loop.take = [this](const OutputFrame& frame) {
      taken_.push_back(number(frame.output(0)));
      return Status();
    };
    return loop;
  }

  void expect_accounts_balance() const {
    const PipelineStatistics statistics = pipeline_->statistics();
    EXPECT_EQ(statistics.submitted, statistics.delivered + statistics.dropped + statistics.failed);
    EXPECT_EQ(statistics.in_flight, 0u);
  }

  std::unique_ptr<HostMemory> memory_ = testing::host_memory();
  std::unique_ptr<Pipeline> pipeline_;
  std::atomic<bool> stop_{false};
  std::int64_t sent_ = 0;
  std::vector<std::int64_t> taken_;
};

TEST_F(FrameLoopTest, RunsUntilTheSourceEnds) {
  const Status status = run_frames(start(chain({affine(2), affine(1)})), counting(3), stop_);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(taken_, ElementsAre(2, 4, 6));
  expect_accounts_balance();
}

TEST_F(FrameLoopTest, AFailedAllocationOfAnyThreadEndsTheRunCleanly) {
  const auto fail = [](bool now) {
    if (now) throw std::bad_alloc();
  };
  for (const std::string_view thread : {"source", "stage", "results"}) {
    sent_ = 0;
    FrameLoop loop = counting(1000);
    loop.fill = [&, fill = loop.fill](const InputFrame& frame) {
      fail(thread == "source" && sent_ == 5);
      return fill(frame);
    };
    loop.take = [&, take = loop.take](const OutputFrame& frame) {
      fail(thread == "results" && frame.id() == 5);
      return take(frame);
    };
    Graph graph = chain({affine(1)});
    if (thread == "stage") graph.nodes[0].stage = std::make_unique<HungryStage>();
    stop_ = false;
    const Status status = run_frames(start(std::move(graph)), loop, stop_);
    EXPECT_EQ(status.code(), Code::kOutOfMemory) << thread;
    EXPECT_THAT(status.message(), HasSubstr("out of memory")) << thread;
    expect_accounts_balance();
  }
}

TEST_F(FrameLoopTest, RunsAtMostTheGivenNumberOfFrames) {
  FrameLoop loop = counting(1000);
  loop.frames = 2;
  EXPECT_TRUE(run_frames(start(chain({affine(1)})), loop, stop_).ok());
  EXPECT_THAT(taken_, ElementsAre(1, 2));
}

TEST_F(FrameLoopTest, AnInterruptionDeliversTheFramesInFlight) {
  FrameLoop loop = counting(1'000'000);
  loop.take = [&](const OutputFrame& frame) {
    taken_.push_back(number(frame.output(0)));
    if (taken_.size() == 10) stop_ = true;
    return Status();
  };
  EXPECT_TRUE(run_frames(start(chain({affine(1), affine(1)})), loop, stop_).ok());
  const PipelineStatistics statistics = pipeline_->statistics();
  EXPECT_GE(statistics.delivered, 10u);
  EXPECT_EQ(statistics.dropped, 0u);
  EXPECT_EQ(statistics.delivered, taken_.size());
  expect_accounts_balance();
}

TEST_F(FrameLoopTest, AnErrorOfTheSourceComesAfterTheFramesBeforeIt) {
  FrameLoop loop = counting(2);
  loop.fill = [&, good = loop.fill](const InputFrame& frame) -> Result<bool> {
    const Result<bool> more = good(frame);
    if (more.ok() && !*more) return Status(Code::kCorrupt, "frame 2 is damaged");
    return more;
  };
  EXPECT_EQ(run_frames(start(chain({affine(1)})), loop, stop_).message(), "frame 2 is damaged");
  EXPECT_THAT(taken_, ElementsAre(1, 2));
  expect_accounts_balance();
}

TEST_F(FrameLoopTest, AnErrorOfAStageEndsTheRun) {
  const auto fails = [](Buffers in, Buffers out) {
    value(out[0]) = value(in[0]);
    return value(in[0]) == 4 ? Status(Code::kDevice, "no answer") : Status();
  };
  const Status status = run_frames(start(chain({affine(1), fails})), counting(1000), stop_);
  EXPECT_EQ(status.message(), "stage 1 'stage1' at frame 3: no answer");
  EXPECT_THAT(taken_, ElementsAre(1, 2, 3));
  expect_accounts_balance();
}

TEST_F(FrameLoopTest, AnErrorOfTheTakerEndsTheRun) {
  FrameLoop loop = counting(1'000'000);
  loop.take = [](const OutputFrame&) { return Status(Code::kInvalidArgument, "disk full"); };
  EXPECT_EQ(run_frames(start(chain({affine(1)})), loop, stop_).message(), "disk full");
  expect_accounts_balance();
}

TEST_F(FrameLoopTest, AFrameThatTakesTooLongIsAnErrorThatNamesTheStage) {
  FrameLoop loop = counting(1);
  loop.deadline = 300ms;
  testing::Gate gate;
  const auto slow = [&gate](Buffers, Buffers) {
    gate.pass();
    return Status();
  };
  Pipeline& pipeline = start(chain({affine(1), slow}));
  const Status status = run_frames(pipeline, loop, stop_);
  gate.open();
  EXPECT_TRUE(pipeline.await_end(testing::soon()).ok());
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_THAT(status.message(), HasSubstr("frame 0 is held by stage 1 'stage1'"));
}

TEST_F(FrameLoopTest, ASlowSourceIsNotAStuckPipeline) {
  FrameLoop loop = counting(2);
  loop.deadline = 500ms;
  loop.fill = [good = loop.fill, first = true](const InputFrame& frame) mutable {
    if (std::exchange(first, false)) std::this_thread::sleep_for(800ms);
    return good(frame);
  };
  EXPECT_TRUE(run_frames(start(chain({affine(1)})), loop, stop_).ok());
  EXPECT_THAT(taken_, ElementsAre(1, 2));
}

}  // namespace
}  // namespace edgepipe
