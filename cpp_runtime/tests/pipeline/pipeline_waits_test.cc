// The waits and queries without side effects: has_slot, has_next, await_slot, await_frame,
// await_end. The Python side calls them in slices, so each must end by its deadline and lose no
// frame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "edgepipe/pipeline.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using testing::affine;
using testing::Buffers;
using testing::chain;
using testing::Gate;
using ::testing::HasSubstr;
using testing::number;
using testing::soon;
using testing::submit;
using testing::value;
using namespace std::chrono_literals;

/// A deadline that comes while the gate is closed.
Clock::time_point shortly() { return Clock::now() + 5ms; }

class PipelineWaitsTest : public testing::PipelineModeTest {
 protected:
  /// A pipeline of one stage that holds every frame from `held` on at the gate.
  std::unique_ptr<Pipeline> gated(std::size_t slots, std::int64_t held = 0) {
    return make(chain({[this, held](Buffers in, Buffers out) {
                  if (value(in[0]) >= held) gate_.pass();
                  value(out[0]) = value(in[0]) + 100;
                  return Status();
                }}),
                slots);
  }

  static void submit_first(Pipeline& pipeline, std::int64_t frames) {
    for (std::int64_t frame = 0; frame < frames; ++frame) {
      ASSERT_TRUE(submit(pipeline, frame).ok());
    }
  }

  /// Expects a wait to end because something woke it, not by its deadline.
  template <typename Wait>
  static void expect_woken(Wait wait) {
    const Clock::time_point deadline = soon();
    const Status status = wait(deadline);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LT(Clock::now(), deadline - 5s) << "nothing woke it";
  }
  static void expect_slot(Pipeline& pipeline, bool or_next = false) {
    expect_woken([&](Clock::time_point by) { return pipeline.await_slot(or_next, by); });
  }
  static void expect_finished(Pipeline& pipeline, std::uint64_t frame) {
    expect_woken([&](Clock::time_point by) { return pipeline.await_frame(frame, by); });
  }

  /// Takes one frame and releases it.
  static void expect_next(Pipeline& pipeline, std::int64_t frame) {
    const Result<OutputFrame> taken = pipeline.next(soon());
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_EQ(taken->id(), static_cast<std::uint64_t>(frame));
    EXPECT_EQ(number(taken->output(0)), frame + 100);
  }

  Gate gate_;
};

INSTANTIATE_TEST_SUITE_P(Modes, PipelineWaitsTest, testing::modes(), testing::mode_name);

TEST_P(PipelineWaitsTest, HasNextSaysWhetherNextReturnsAtOnce) {
  const auto pipeline = gated(4);
  EXPECT_FALSE(pipeline->has_next()) << "nothing has been submitted";
  submit_first(*pipeline, 1);
  gate_.wait_until_reached();
  EXPECT_FALSE(pipeline->has_next()) << "the stage holds the frame";
  gate_.open();
  expect_finished(*pipeline, 0);
  EXPECT_TRUE(pipeline->has_next());
  expect_next(*pipeline, 0);
  EXPECT_FALSE(pipeline->has_next());
  ASSERT_TRUE(pipeline->stop(soon()).ok());
  EXPECT_TRUE(pipeline->has_next()) << "next() returns at once, with an error";
  EXPECT_EQ(pipeline->next(Clock::now()).status().code(), Code::kClosed);
}

TEST_P(PipelineWaitsTest, HasSlotSaysWhetherAcquireReturnsAtOnce) {
  const auto pipeline = make(chain({affine(1)}), 2);
  EXPECT_TRUE(pipeline->has_slot());
  submit_first(*pipeline, 2);
  expect_finished(*pipeline, 1);
  EXPECT_FALSE(pipeline->has_slot()) << "finished frames keep their slots";
  {
    const Result<OutputFrame> frame = pipeline->next(soon());
    EXPECT_FALSE(pipeline->has_slot()) << "so do frames that have been taken";
  }
  EXPECT_TRUE(pipeline->has_slot());
  EXPECT_EQ(pipeline->submitted(), 2u) << "a question takes no slot";
  pipeline->cancel();
  EXPECT_TRUE(pipeline->has_slot()) << "acquire() returns at once, with an error";
  EXPECT_EQ(pipeline->acquire(Clock::now()).status().code(), Code::kCancelled);
}

TEST_P(PipelineWaitsTest, AwaitSlotEndsWhenAFrameIsReleased) {
  const auto pipeline = make(chain({affine(1)}), 2);
  EXPECT_TRUE(pipeline->await_slot(false, Clock::now()).ok()) << "there is one";
  submit_first(*pipeline, 2);
  const Status late = pipeline->await_slot(false, shortly());
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_THAT(late.message(), HasSubstr("no free slot before the deadline: all 2 are in use"));
  std::thread taker([&] {
    std::this_thread::sleep_for(5ms);
    EXPECT_TRUE(pipeline->next(soon()).ok());
  });
  expect_slot(*pipeline);
  EXPECT_TRUE(submit(*pipeline, 2, Clock::now()).ok()) << "the slot is still there";
  taker.join();
}

TEST_P(PipelineWaitsTest, AwaitSlotCanEndAtAFinishedFrameInstead) {
  const auto pipeline = gated(2);
  submit_first(*pipeline, 2);
  EXPECT_EQ(pipeline->await_slot(true, shortly()).code(), Code::kDeadline);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    gate_.open();
  });
  expect_slot(*pipeline, true);
  EXPECT_TRUE(pipeline->has_next());
  EXPECT_EQ(pipeline->await_slot(false, shortly()).code(), Code::kDeadline) << "none is free yet";
  opener.join();
  expect_next(*pipeline, 0);
  expect_next(*pipeline, 1);
}

TEST_P(PipelineWaitsTest, AFrameThatIsStuckDelaysNoEarlierOneOfAFastStream) {
  // Wake-ups are shared in such a stream, so a finished frame may still owe one when the first
  // stage begins to run the frame that gets stuck.
  constexpr std::int64_t kHeld = 2000;
  const auto pipeline = make(chain({[this](Buffers in, Buffers out) {
                                      if (value(in[0]) >= kHeld) gate_.pass();
                                      value(out[0]) =
                                          value(in[0]) + 98;  // the other stages add 1 each
                                      return Status();
                                    },
                                    affine(1), affine(1)}),
                             8);
  std::int64_t taken = 0;
  for (std::int64_t frame = 0; frame <= kHeld + 3; ++frame) {
    if (frame - taken == 8) expect_next(*pipeline, taken++);
    ASSERT_TRUE(submit(*pipeline, frame).ok());
  }
  while (taken < kHeld) expect_next(*pipeline, taken++);
  EXPECT_EQ(pipeline->await_frame(kHeld, shortly()).code(), Code::kDeadline);
  gate_.open();
  while (taken <= kHeld + 3) expect_next(*pipeline, taken++);
}

TEST_P(PipelineWaitsTest, AwaitSlotEndsWithThePipeline) {
  const auto pipeline = gated(2);
  submit_first(*pipeline, 2);
  std::thread waiter([&] { expect_slot(*pipeline); });
  std::this_thread::sleep_for(5ms);
  pipeline->cancel();
  waiter.join();
  EXPECT_EQ(submit(*pipeline, 2).status().code(), Code::kCancelled) << "which submit() then says";
  gate_.open();
}

TEST_P(PipelineWaitsTest, AwaitFrameGivesUpAndCanBeRepeatedWithoutLosingAFrame) {
  const auto pipeline = gated(4);
  submit_first(*pipeline, 3);
  gate_.wait_until_reached();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Status late = pipeline->await_frame(1, shortly());
    EXPECT_EQ(late.code(), Code::kDeadline);
    EXPECT_THAT(late.message(), HasSubstr("no finished frame before the deadline: frame 1"));
    EXPECT_THAT(late.message(), HasSubstr("stage 0 'stage0'"));
  }
  EXPECT_THAT(pipeline->await_frame(3, shortly()).message(), HasSubstr("none is in the pipeline"));
  gate_.open();
  expect_finished(*pipeline, 2);
  EXPECT_TRUE(pipeline->await_frame(0, Clock::now()).ok()) << "earlier frames are finished, too";
  for (int frame = 0; frame < 3; ++frame) expect_next(*pipeline, frame);
}

TEST_P(PipelineWaitsTest, AWaitForALateFrameDelaysNoEarlierOne) {
  const auto pipeline = gated(4, 2);
  std::atomic<bool> done = false;
  std::thread late([&] {
    expect_finished(*pipeline, 2);
    done = true;
  });
  submit_first(*pipeline, 3);
  expect_finished(*pipeline, 0);
  expect_finished(*pipeline, 1);
  expect_next(*pipeline, 0);
  expect_next(*pipeline, 1);
  EXPECT_FALSE(done) << "the stage still holds frame 2";
  gate_.open();
  late.join();
  expect_next(*pipeline, 2);
}

TEST_P(PipelineWaitsTest, AwaitFrameEndsForFramesThatNeverWillBe) {
  const auto pipeline = make(chain({[](Buffers in, Buffers out) {
                               if (value(in[0]) == 1) return Status(Code::kDevice, "broken");
                               value(out[0]) = value(in[0]) + 100;
                               return Status();
                             }}),
                             4);
  std::vector<std::thread> waiters;
  for (const std::uint64_t frame : {1U, 2U, 9U}) {
    waiters.emplace_back([&pipeline, frame] { expect_finished(*pipeline, frame); });
  }
  submit_first(*pipeline, 2);
  for (std::thread& waiter : waiters) waiter.join();
  expect_next(*pipeline, 0);
  EXPECT_THAT(pipeline->next(Clock::now()).status().message(), HasSubstr("broken"));
}

TEST_P(PipelineWaitsTest, AwaitFrameEndsAtStopAndAtCancel) {
  for (const bool cancels : {false, true}) {
    const auto pipeline = make(chain({affine(1)}), 2);
    submit_first(*pipeline, 1);
    std::thread waiter([&] { expect_finished(*pipeline, 1); });
    std::this_thread::sleep_for(5ms);
    if (cancels) {
      pipeline->cancel();
    } else {
      EXPECT_TRUE(pipeline->stop(soon()).ok());
    }
    waiter.join();
  }
}

TEST_P(PipelineWaitsTest, AwaitEndNamesTheStageAtWorkAndEndsAfterIt) {
  const auto pipeline = gated(2);
  EXPECT_EQ(pipeline->await_end(soon()).code(), Code::kInvalidArgument) << "it is running";
  submit_first(*pipeline, 1);
  gate_.wait_until_reached();
  pipeline->cancel();
  const Status late = pipeline->await_end(shortly());
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_EQ(late.message(),
            "the pipeline has not ended before the deadline: frame 0 is held by stage 0 'stage0'");
  gate_.open();
  expect_woken([&](Clock::time_point by) { return pipeline->await_end(by); });
}

}  // namespace
}  // namespace edgepipe
