// A pipeline whose threads poll before they sleep behaves like one whose threads sleep immediately.
#include <gtest/gtest.h>

#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using testing::affine;
using testing::soon;
using testing::submit;

// Long, so that stages never sleep, and short, so that they alternate between sleeping and polling.
class PipelineSpinTest : public ::testing::TestWithParam<std::chrono::microseconds> {
 protected:
  std::unique_ptr<Pipeline> make(std::vector<FunctionStage::Body> bodies) {
    auto made = Pipeline::create(testing::chain(std::move(bodies)), *memory_,
                                 {.slots = 4, .spin = GetParam()});
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }

  const std::unique_ptr<HostMemory> memory_ = testing::host_memory();
};

TEST_P(PipelineSpinTest, ResultsAreRightAndInOrder) {
  const auto pipeline = make({affine(2), affine(3), affine(5)});
  for (std::int64_t frame = 0; frame < 500; frame += 2) {
    ASSERT_TRUE(submit(*pipeline, frame).ok());
    ASSERT_TRUE(submit(*pipeline, frame + 1).ok());
    for (std::int64_t expected = frame; expected < frame + 2; ++expected) {
      const auto result = pipeline->next(soon());
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(static_cast<std::int64_t>(result->id()), expected);
      EXPECT_EQ(testing::number(result->output(0)), ((expected * 2 + 1) * 3 + 1) * 5 + 1);
    }
  }
  ASSERT_TRUE(pipeline->stop(soon()).ok());
  const PipelineStatistics statistics = pipeline->statistics();
  EXPECT_EQ(statistics.delivered, 500U);
  for (const StageStatistics& stage : statistics.stages) {
    EXPECT_EQ(stage.busy.count, 500U);
    EXPECT_EQ(stage.waiting, 0U);
  }
}

TEST_P(PipelineSpinTest, AFailureEndsItAtItsFrame) {
  const auto pipeline = make({affine(2),
                              [](testing::Buffers in, testing::Buffers out) {
                                if (testing::value(in[0]) == 7) return Status(Code::kDevice, "no");
                                return affine(3)(in, out);
                              },
                              affine(5)});
  std::uint64_t sent = 0;
  while (submit(*pipeline, static_cast<std::int64_t>(sent), Clock::now() + 100ms).ok()) ++sent;
  std::uint64_t delivered = 0;
  while (pipeline->next(soon()).ok()) ++delivered;
  EXPECT_EQ(delivered, 3U);  // frame 3 gives 7
  const PipelineStatistics statistics = pipeline->statistics();
  EXPECT_EQ(statistics.submitted, statistics.delivered + statistics.dropped + statistics.failed);
  EXPECT_EQ(statistics.failed, 1U);
}

TEST_P(PipelineSpinTest, CancelAndRestartWork) {
  const auto pipeline = make({affine(2), affine(3)});
  for (int life = 0; life < 3; ++life) {
    ASSERT_TRUE(submit(*pipeline, 10).ok());
    ASSERT_TRUE(submit(*pipeline, 11).ok());
    {
      const auto result = pipeline->next(soon());
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(testing::number(result->output(0)), (10 * 2 + 1) * 3 + 1);
    }
    pipeline->cancel();
    EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kCancelled);
    ASSERT_TRUE(pipeline->restart(soon()).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(, PipelineSpinTest, ::testing::Values(20us, 100ms),
                         [](const auto& info) { return std::to_string(info.param.count()); });

}  // namespace
}  // namespace edgepipe
