#include "stage/timed_stage.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "edgepipe/sync.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;
using testing::affine;
using testing::value;

/// A stage of one int64 tensor to another, with its buffers.
class Timed {
 public:
  Timed(FunctionStage::Body body, milliseconds modelled)
      : stage_(std::make_unique<FunctionStage>("arm0", std::move(body)), modelled) {
    EXPECT_TRUE(stage_.bind(0, {&x_, 1}, {&y_, 1}).ok());
    value(x_) = 7;
  }

  Status run() {
    const Clock::time_point began = Clock::now();
    Status status = stage_.run(0);
    took = Clock::now() - began;
    return status;
  }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::int64_t output() const { return value(y_); }

  std::chrono::nanoseconds took{0};

 private:
  alignas(64) std::array<std::byte, 64> memory_x_{};
  alignas(64) std::array<std::byte, 64> memory_y_{};
  BufferView x_{.data = memory_x_.data(), .bytes = 8};
  BufferView y_{.data = memory_y_.data(), .bytes = 8};
  TimedStage stage_;
};

TEST(TimedStageTest, ARunTakesAtLeastItsModelledTime) {
  Timed timed(affine(3), milliseconds(20));
  EXPECT_EQ(timed.stage().name(), "arm0");
  ASSERT_TRUE(timed.run().ok());
  EXPECT_GE(timed.took, milliseconds(20));
  EXPECT_EQ(timed.output(), 22);
}

TEST(TimedStageTest, AnErrorReturnsAtOnce) {
  const FunctionStage::Body failing = [](FunctionStage::Views, FunctionStage::Views) {
    return Status(Code::kInternal, "the kernel failed");
  };
  Timed timed(failing, milliseconds(60'000));
  EXPECT_EQ(timed.run().message(), "the kernel failed");
  EXPECT_LT(timed.took, milliseconds(10'000));
}

}  // namespace
}  // namespace edgepipe
