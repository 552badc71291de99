// A pipeline whose device fails: run again, then the fallback, then a controlled end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <new>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"
#include "emulation/model_device.h"
#include "memory/non_coherent_memory.h"
#include "stage/vta_stage.h"
#include "support/pipeline_test_stages.h"
#include "support/vta_stage_files.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using testing::affine;
using ::testing::AllOf;
using testing::Buffers;
using testing::chain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::number;
using testing::soon;
using ::testing::StartsWith;
using testing::submit;
using testing::value;

/// A stage on an imaginary device: output = input + 1 if `results` has no error for the run.
class DeviceStage final : public FunctionStage {
 public:
  DeviceStage(std::vector<Status> results, int& runs, bool repeatable = true)
      : FunctionStage("body",
                      [results = std::move(results), &runs](Buffers in, Buffers out) {
                        const auto run = static_cast<std::size_t>(runs++);
                        value(out[0]) = -1;  // a failed run may leave any values
                        if (run < results.size() && !results[run].ok()) return results[run];
                        value(out[0]) = value(in[0]) + 1;
                        return Status();
                      }),
        repeatable_(repeatable) {}
  [[nodiscard]] bool repeatable() const override { return repeatable_; }

 private:
  bool repeatable_;
};

class PipelineFaultTest : public testing::PipelineModeTest {
 protected:
  /// stage0 (+1), the device's stage (+1), stage2 (+1).
  Pipeline& start(std::unique_ptr<Stage> device_stage, std::unique_ptr<Stage> fallback = nullptr) {
    Graph graph = chain({affine(1), affine(1), affine(1)});
    graph.nodes[1].stage = std::move(device_stage);
    graph.nodes[1].fallback = std::move(fallback);
    pipeline_ = *create(
        std::move(graph),
        {.faults = faults_, .on_fault = [this](const std::string& what) { told_ += what + "\n"; }});
    return *pipeline_;
  }
  Pipeline& start(std::vector<Status> results, bool with_fallback) {
    return start(std::make_unique<DeviceStage>(std::move(results), runs_),
                 with_fallback ? std::make_unique<FunctionStage>("arm", affine(1)) : nullptr);
  }

  /// Submits one frame and returns its result or error.
  Result<std::int64_t> run(std::int64_t input) {
    Result<std::uint64_t> id = submit(*pipeline_, input);
    if (!id.ok()) return id.status();
    Result<OutputFrame> frame = pipeline_->next(soon());
    if (!frame.ok()) return frame.status();
    return number(frame->output(0));
  }

  void expect_account(std::uint64_t delivered, std::uint64_t dropped, std::uint64_t failed) const {
    const PipelineStatistics statistics = pipeline_->statistics();
    EXPECT_EQ(statistics.submitted, delivered + dropped + failed);
    EXPECT_EQ(statistics.delivered, delivered);
    EXPECT_EQ(statistics.dropped, dropped);
    EXPECT_EQ(statistics.failed, failed);
    EXPECT_EQ(statistics.in_flight, 0u);
  }

  [[nodiscard]] StageStatistics body() const { return pipeline_->statistics().stages[1]; }

  static Status hang() { return {Code::kDeadline, "no answer; it has been reset"}; }

  FaultPolicy faults_;
  int runs_ = 0;  // of the device's stage
  std::string told_;
  std::unique_ptr<Pipeline> pipeline_;
};

INSTANTIATE_TEST_SUITE_P(Modes, PipelineFaultTest, testing::modes(), testing::mode_name);

TEST_P(PipelineFaultTest, AFrameIsRunAgainAfterAHangWithTheSameResult) {
  start({Status(), hang()}, /*with_fallback=*/false);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*run(i), i + 3);
  EXPECT_EQ(runs_, 5);
  EXPECT_EQ(body().retries, 1u);
  EXPECT_EQ(body().fallback_frames, 0u);
  EXPECT_EQ(told_,
            "stage 1 'body' at frame 1: no answer; it has been reset; running the frame again\n");
  EXPECT_EQ(body().fault + "\n", told_);
  EXPECT_THAT(pipeline_->statistics().table(),
              HasSubstr("body: 1 frames run again, 0 on its fallback"));
  expect_account(4, 0, 0);
}

TEST_P(PipelineFaultTest, AfterASecondHangOfAFrameTheFallbackTakesOver) {
  start({Status(), hang(), hang()}, /*with_fallback=*/true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*run(i), i + 3);
  EXPECT_EQ(runs_, 3) << "the device is left alone afterwards";
  EXPECT_EQ(body().retries, 1u);
  EXPECT_EQ(body().fallback_frames, 3u);
  EXPECT_THAT(body().fault, HasSubstr("at frame 1: no answer; it has been reset; its fallback"));
  EXPECT_THAT(pipeline_->statistics().json(), HasSubstr("\"fallback_frames\":3"));
  expect_account(4, 0, 0);
}

TEST_P(PipelineFaultTest, WithoutAFallbackASecondHangEndsTheRunWithStageAndFrame) {
  start({Status(), hang(), hang()}, /*with_fallback=*/false);
  EXPECT_TRUE(run(0).ok());
  const Status status = run(1).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(), "stage 1 'body' at frame 1: no answer; it has been reset");
  EXPECT_EQ(run(2).status().message(), status.message());
  expect_account(1, 0, 1);
}

TEST_P(PipelineFaultTest, ABrokenDeviceIsNotTriedAgain) {
  start({Status(Code::kDevice, "it cannot be reset")}, /*with_fallback=*/true);
  EXPECT_EQ(*run(0), 3);
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(body().retries, 0u);
  EXPECT_EQ(body().fallback_frames, 1u);
}

TEST_P(PipelineFaultTest, AThirdHangInTwentyRunsEndsTheUseOfTheDevice) {
  start({hang(), Status(), hang(), Status(), Status(), hang()}, /*with_fallback=*/true);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(*run(i), i + 3);
  EXPECT_EQ(runs_, 6);
  EXPECT_EQ(body().hangs, 3u);
  EXPECT_EQ(body().retries, 2u);
  EXPECT_EQ(body().fallback_frames, 3u) << "frames 3 to 5";
  EXPECT_THAT(pipeline_->statistics().json(), HasSubstr("\"hangs\":3"));
  EXPECT_EQ(body().fault,
            "stage 1 'body' at frame 3: no answer; it has been reset; 3 of the last 20 runs hung; "
            "its fallback takes over");
}

TEST_P(PipelineFaultTest, WithoutAFallbackTooManyHangsEndTheRunWithThatCause) {
  faults_ = {.most_hangs = 2, .runs = 5};
  start({hang(), Status(), hang()}, /*with_fallback=*/false);
  EXPECT_TRUE(run(0).ok());
  EXPECT_EQ(run(1).status().message(),
            "stage 1 'body' at frame 1: no answer; it has been reset; 2 of the last 5 runs hung");
  expect_account(1, 0, 1);
}

TEST_P(PipelineFaultTest, HangsThatAreFarApartAreNotTooMany) {
  faults_ = {.most_hangs = 2, .runs = 5};
  std::vector<Status> results;
  for (int n = 0; n < 24; ++n) results.push_back(n % 6 == 0 ? hang() : Status());
  start(std::move(results), /*with_fallback=*/true);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*run(i), i + 3);
  EXPECT_EQ(body().hangs, 4u);
  EXPECT_EQ(body().fallback_frames, 0u);
}

TEST_P(PipelineFaultTest, ADeviceThatPassesItsTrialsIsUsedAgain) {
  faults_ = {.trial_frames = 2, .trials = 2};
  start({Status(Code::kDevice, "broken"), hang()}, /*with_fallback=*/true);
  // 0 falls back; a trial at 2 fails, so the next is at 6; 6 and 7 pass; from 8 on the device runs.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(*run(i), i + 3) << i;
  EXPECT_EQ(runs_, 1 + 1 + 2 + 2);
  EXPECT_EQ(body().fallback_frames, 8u);
  EXPECT_EQ(told_,
            "stage 1 'body' at frame 0: broken; its fallback takes over\n"
            "stage 1 'body' at frame 2: no answer; it has been reset; the next trial is in 4 "
            "frames\n"
            "stage 1 'body' at frame 7: the device passed 2 trials; it is used again\n");
}

TEST_P(PipelineFaultTest, ADeviceThatComputesOtherBytesStaysOnItsFallback) {
  faults_ = {.trial_frames = 1, .trials = 1};
  start(std::make_unique<DeviceStage>(std::vector{Status(Code::kDevice, "broken")}, runs_),
        std::make_unique<FunctionStage>("arm", affine(2)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*run(i), 2 * i + 4) << "the fallback's";
  EXPECT_THAT(told_, HasSubstr("stage 1 'body' at frame 1: the device's output differs from the "
                               "fallback's; the next trial is in 2 frames"));
  EXPECT_EQ(body().fallback_frames, 3u);
}

TEST_P(PipelineFaultTest, WithoutTrialsTheDeviceIsLeftAlone) {
  faults_ = {.trial_frames = 0};
  start({Status(Code::kDevice, "broken")}, /*with_fallback=*/true);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(*run(i), i + 3);
  EXPECT_EQ(runs_, 1);
}

TEST_P(PipelineFaultTest, AStageWithSideEffectsIsNotRunAgain) {
  start(std::make_unique<DeviceStage>(std::vector{hang()}, runs_, /*repeatable=*/false));
  EXPECT_EQ(run(0).status().message(), "stage 1 'body' at frame 0: no answer; it has been reset");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(body().retries, 0u);
}

TEST_P(PipelineFaultTest, AFallbackThatFailsTooIsNamed) {
  start(std::make_unique<DeviceStage>(std::vector{hang(), hang()}, runs_),
        std::make_unique<FunctionStage>(
            "arm", [](Buffers, Buffers) { return Status(Code::kInternal, "bad kernel"); }));
  EXPECT_EQ(run(0).status().message(), "stage 1 'body' at frame 0: fallback: bad kernel");
  expect_account(0, 0, 1);
}

TEST_P(PipelineFaultTest, ARestartTriesTheDeviceAgain) {
  start({hang(), hang()}, /*with_fallback=*/true);
  EXPECT_EQ(*run(0), 3);
  ASSERT_TRUE(pipeline_->stop(soon()).ok());
  ASSERT_TRUE(pipeline_->restart(soon()).ok());
  EXPECT_EQ(body().fallback_frames, 0u);
  EXPECT_EQ(body().fault, "");
  EXPECT_EQ(*run(0), 3);
  EXPECT_EQ(runs_, 3);
  EXPECT_EQ(body().fallback_frames, 0u);
}

TEST_P(PipelineFaultTest, AnAllocatorThatFailsWhileRunningFailsTheFrameAndTheAccountHolds) {
  const auto fails = [](Buffers in, Buffers) -> Status {
    if (value(in[0]) == 3) throw std::bad_alloc();
    return {};
  };
  pipeline_ = *create(chain({affine(1), fails, affine(1)}), {.slots = 6});
  for (int i = 0; i < 6; ++i) {
    if (!submit(*pipeline_, i).ok()) break;  // the error may already be known
  }
  EXPECT_TRUE(pipeline_->next(soon()).ok());
  EXPECT_TRUE(pipeline_->next(soon()).ok());
  EXPECT_THAT(pipeline_->next(soon()).status().message(),
              StartsWith("stage 1 'stage1' at frame 2: "));
  const PipelineStatistics statistics = pipeline_->statistics();
  expect_account(2, statistics.submitted - 3, 1);
}

TEST_P(PipelineFaultTest, AStagesErrorIsReportedWithoutMoreMemory) {
  const std::string reason(100, 'x');
  const auto fails = [&](Buffers, Buffers) {
    Status status(Code::kInternal, reason);
    conformance::fail_allocations(1'000'000);  // of the pipeline's thread, which then ends
    return status;
  };
  pipeline_ = *create(chain({fails}), {});
  ASSERT_TRUE(submit(*pipeline_, 1).ok());
  EXPECT_EQ(pipeline_->next(soon()).status().message(), "stage 0 'stage0' at frame 0: " + reason);
  expect_account(0, 0, 1);
}

// ---- the real driver, on a model of the FPGA ---------------------------------------------------

/// A pipeline of one VTA stage, int8[16] y = 3 * x.
class FaultyFpgaTest : public ::testing::Test {
 protected:
  void start(std::vector<Fault> faults, bool with_fallback, bool reset = true) {
    device_ = *ModelDevice::create({}, *memory_, memory_->device_side(),
                                   {.model = {.faults = std::move(faults), .stale_done = 3ms},
                                    .driver = {.interrupt_patience = 5ms},
                                    .reset = reset});
    Graph graph;
    for (const char* name : {"x", "y"}) {
      TensorSpec tensor;
      tensor.name = name;
      tensor.bytes = kBytes;
      graph.tensors.push_back(std::move(tensor));
    }
    graph.inputs = {0};
    graph.outputs = {1};
    graph.nodes.push_back(
        {*VtaStage::create(
             *device_, *testing::VtaStageFiles().parse(),
             {.name = "body", .inputs = {"x"}, .outputs = {"y"}, .time_limit = 100ms}),
         {0},
         {1}});
    if (with_fallback) {
      graph.nodes[0].fallback = std::make_unique<FunctionStage>("arm", [](Buffers in, Buffers out) {
        for (std::size_t n = 0; n < kBytes; ++n) {
          out[0].data[n] = std::byte(3 * std::to_integer<unsigned>(in[0].data[n]));
        }
        return Status();
      });
    }
    pipeline_ = *Pipeline::create(std::move(graph), *memory_, {.faults = faults_});
  }

  /// Runs this many frames; returns the first error or wrong result.
  Status run(int frames) {
    for (int frame = 0; frame < frames; ++frame) {
      std::array<std::uint8_t, kBytes> input{};
      for (std::size_t n = 0; n < kBytes; ++n) input[n] = std::uint8_t((frame + int(n)) % 40);
      const std::span<const std::byte> bytes = std::as_bytes(std::span(input));
      Result<std::uint64_t> id = pipeline_->submit(std::span(&bytes, 1), soon());
      if (!id.ok()) return id.status();
      Result<OutputFrame> result = pipeline_->next(soon());
      if (!result.ok()) return result.status();
      for (std::size_t n = 0; n < kBytes; ++n) {
        if (std::to_integer<int>(result->output(0)[n]) != 3 * input[n]) {
          return {Code::kCorrupt, "frame " + std::to_string(frame) + " is wrong"};
        }
      }
    }
    return {};
  }

  [[nodiscard]] StageStatistics body() const { return pipeline_->statistics().stages[0]; }

  static constexpr std::size_t kBytes = 16;
  FaultPolicy faults_;
  std::unique_ptr<NonCoherentMemory> memory_ =
      *NonCoherentMemory::create({.arena_bytes = std::size_t{1} << 20});
  std::unique_ptr<ModelDevice> device_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(FaultyFpgaTest, OccasionalHangsAreResetAndTheFramesRunAgain) {
  start({{.kind = FaultKind::kHang, .every_runs = 5}}, /*with_fallback=*/false);
  const Status status = run(12);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(body().retries, 2u);  // the runs 5 and 10 of 14
  EXPECT_EQ(device_->statistics().resets, 2u);
  EXPECT_THAT(
      body().fault,
      AllOf(HasSubstr("vta: hangs: deadline passed in run 10 of 7 instructions"),
            HasSubstr("compute control 0x81"), HasSubstr("the accelerator has been reset")));
}

TEST_F(FaultyFpgaTest, IfEveryRunHangsTheFallbackGivesTheSameBits) {
  start({{.kind = FaultKind::kHang, .every_runs = 1}}, /*with_fallback=*/true);
  const Status status = run(6);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(body().fallback_frames, 6u);
  EXPECT_EQ(device_->statistics().hangs, 2u);
}

TEST_F(FaultyFpgaTest, IfEveryRunHangsWithoutAFallbackThePipelineEndsCleanly) {
  start({{.kind = FaultKind::kHang, .every_runs = 1}}, /*with_fallback=*/false);
  const Status status = run(1);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(),
              AllOf(StartsWith("stage 0 'body' at frame 0: stage body: vta: hangs"),
                    HasSubstr("in run 2 of 7 instructions")));
  EXPECT_EQ(pipeline_->statistics().failed, 1u);
}

TEST_F(FaultyFpgaTest, AHangThatNothingResetsGoesStraightToTheFallback) {
  start({{.kind = FaultKind::kHang, .every_runs = 3}}, /*with_fallback=*/true, /*reset=*/false);
  const Status status = run(6);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(body().fallback_frames, 5u) << "frames 1 to 5; one run was at the start";
}

TEST_F(FaultyFpgaTest, AnAcceleratorThatRecoversIsUsedAgainWithTheSameBits) {
  faults_ = {.most_hangs = 1, .trial_frames = 2, .trials = 2};
  start({{.kind = FaultKind::kHang, .every_runs = 4}}, /*with_fallback=*/true);
  const Status status = run(12);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GE(body().hangs, 2u);
  EXPECT_LT(body().fallback_frames, 12u - 3u) << "it came back";
  EXPECT_GT(device_->statistics().runs, 6u);
}

TEST_F(FaultyFpgaTest, StaleDoneFlagsAndLostInterruptsChangeNothing) {
  start({{.kind = FaultKind::kStaleDone, .every_runs = 2},
         {.kind = FaultKind::kLostInterrupt, .every_runs = 3}},
        /*with_fallback=*/false);
  const Status status = run(12);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(body().retries, 0u);
}

}  // namespace
}  // namespace edgepipe
