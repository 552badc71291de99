#include "edgepipe/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <optional>
#include <thread>

#include "base/thread.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using testing::affine;
using ::testing::AllOf;
using testing::Buffers;
using testing::chain;
using testing::FunctionStage;
using testing::Gate;
using ::testing::HasSubstr;
using testing::number;
using testing::soon;
using testing::submit;
using ::testing::UnorderedElementsAre;
using testing::value;
using namespace std::chrono_literals;

class PipelineTest : public testing::PipelineModeTest {
 protected:
  static void expect_accounts_balance(const PipelineStatistics& statistics) {
    EXPECT_EQ(statistics.submitted,
              statistics.delivered + statistics.dropped + statistics.failed + statistics.in_flight);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PipelineTest, testing::modes(), testing::mode_name);

TEST_P(PipelineTest, DeliversEveryFrameInTheOrderOfSubmission) {
  const auto pipeline = make(chain({affine(2), affine(3), affine(5)}));
  std::thread producer([&] {
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  });
  for (int i = 0; i < 500; ++i) {
    Result<OutputFrame> frame = pipeline->next(soon());
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(frame->id(), static_cast<std::uint64_t>(i));
    EXPECT_EQ(number(frame->output(0)), ((i * 2 + 1) * 3 + 1) * 5 + 1);
    EXPECT_EQ(number(frame->tensor(0)), i) << "the submitted input stays readable";
  }
  producer.join();
  EXPECT_TRUE(pipeline->stop(soon()).ok());
  const PipelineStatistics statistics = pipeline->statistics();
  EXPECT_EQ(statistics.submitted, 500u);
  EXPECT_EQ(statistics.delivered, 500u);
  expect_accounts_balance(statistics);
}

TEST_P(PipelineTest, BranchesAndSkipEdgesJoinOnTheSameFrame) {
  Graph graph;
  graph.tensors = {{.name = "in", .bytes = 8},
                   {.name = "left", .bytes = 8},
                   {.name = "right", .bytes = 8},
                   {.name = "out", .bytes = 8}};
  graph.inputs = {0};
  graph.outputs = {3, 1};
  const auto add_node = [&](const char* name, FunctionStage::Body body,
                            std::vector<std::size_t> reads, std::size_t write) {
    graph.nodes.push_back(
        {std::make_unique<FunctionStage>(name, std::move(body)), std::move(reads), {write}});
  };
  add_node("left", affine(2), {0}, 1);
  add_node("right", affine(100), {0}, 2);
  add_node(
      "join",
      [](Buffers in, Buffers out) {
        value(out[0]) = value(in[0]) + value(in[1]) + value(in[2]);
        return Status();
      },
      {1, 2, 0}, 3);
  const auto pipeline = make(std::move(graph));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(submit(*pipeline, i).ok());
    Result<OutputFrame> frame = pipeline->next(soon());
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(number(frame->output(0)), (2 * i + 1) + (100 * i + 1) + i);
    EXPECT_EQ(number(frame->output(1)), 2 * i + 1);
  }
}

TEST_P(PipelineTest, StopFinishesWhatWasSubmittedAndThenIsClosed) {
  const auto pipeline = make(chain({affine(1), affine(1)}), 8);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  EXPECT_TRUE(pipeline->stop(soon()).ok()) << "stop does not need anyone to take the results";
  EXPECT_EQ(submit(*pipeline, 9).status().code(), Code::kClosed);
  EXPECT_EQ(submit(*pipeline, 9).status().hint(), "start the pipeline again");
  EXPECT_EQ(pipeline->statistics().in_flight, 8u);
  for (int i = 0; i < 8; ++i) {
    Result<OutputFrame> frame = pipeline->next(soon());
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(number(frame->output(0)), i + 2);
  }
  EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kClosed);
  EXPECT_TRUE(pipeline->stop(soon()).ok());
  pipeline->cancel();
  EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kClosed) << "nothing left to cancel";
}

TEST_P(PipelineTest, StopReportsTheStageThatDoesNotFinishInTime) {
  Gate gate;
  const auto pipeline = make(chain({affine(1), [&](Buffers, Buffers) {
                                      gate.pass();
                                      return Status();
                                    }}));
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  gate.wait_until_reached();
  const Status status = pipeline->stop(Clock::now() + 10ms);
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_EQ(status.message(),
            "the pipeline has not drained before the deadline: frame 0 is held by stage 1 "
            "'stage1'");
  gate.open();
  EXPECT_TRUE(pipeline->stop(soon()).ok());
}

TEST_P(PipelineTest, CancelDropsWhatWasNotDelivered) {
  Gate gate;
  const auto pipeline = make(chain({affine(1),
                                    [&](Buffers in, Buffers) {
                                      if (value(in[0]) > 1) gate.pass();
                                      return Status();
                                    }}),
                             4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  { ASSERT_TRUE(pipeline->next(soon()).ok()); }
  gate.wait_until_reached();
  pipeline->cancel();
  EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kCancelled);
  EXPECT_EQ(submit(*pipeline, 9).status().code(), Code::kCancelled);
  gate.open();
  EXPECT_EQ(pipeline->stop(soon()).code(), Code::kCancelled);
  const PipelineStatistics statistics = pipeline->statistics();
  EXPECT_EQ(statistics.delivered, 1u);
  EXPECT_EQ(statistics.dropped, 3u);
  EXPECT_EQ(statistics.in_flight, 0u);
  expect_accounts_balance(statistics);
}

TEST_P(PipelineTest, CancelWakesACallerThatWaits) {
  const auto pipeline = make(chain({affine(1)}));
  std::thread canceller([&] {
    std::this_thread::sleep_for(5ms);
    pipeline->cancel();
  });
  EXPECT_EQ(pipeline->next(soon()).status().code(), Code::kCancelled);
  canceller.join();
}

TEST_P(PipelineTest, DeadlineInsideAStageIsAFailureAndNotTheCallersWait) {
  const auto hangs = [](Buffers, Buffers) { return Status(Code::kDeadline, "no answer"); };
  const auto pipeline = make(chain({hangs}), 2);
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  const Status status = pipeline->next(soon()).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(), "stage 0 'stage0' at frame 0: no answer");
}

TEST_P(PipelineTest, AnErrorNamesStageAndFrameAfterTheFramesBeforeIt) {
  const auto fails_at_3 = [](Buffers in, Buffers out) {
    if (value(in[0]) == 3 + 1) return Status(Code::kDevice, "load module does not answer");
    value(out[0]) = value(in[0]);
    return Status();
  };
  const auto pipeline = make(chain({affine(1), fails_at_3, affine(1)}), 6);
  for (int i = 0; i < 6; ++i) {
    if (!submit(*pipeline, i).ok()) break;  // the error may already be known
  }
  for (int i = 0; i < 3; ++i) {
    Result<OutputFrame> frame = pipeline->next(soon());
    ASSERT_TRUE(frame.ok()) << i << ": " << frame.status().message();
    EXPECT_EQ(number(frame->output(0)), i + 2);
  }
  const Status error = pipeline->next(soon()).status();
  EXPECT_EQ(error.code(), Code::kDevice);
  EXPECT_EQ(error.message(), "stage 1 'stage1' at frame 3: load module does not answer");
  EXPECT_EQ(submit(*pipeline, 9).status().message(), error.message());
  EXPECT_EQ(pipeline->stop(soon()).message(), error.message());
  const PipelineStatistics statistics = pipeline->statistics();
  EXPECT_EQ(statistics.delivered, 3u);
  EXPECT_EQ(statistics.failed, 1u);
  expect_accounts_balance(statistics);
}

TEST_P(PipelineTest, TheEarliestFrameOfSeveralErrorsIsReported) {
  Gate gate;  // holds frame 1 in the last stage until the first stage has failed on frame 4
  const auto pipeline = make(chain({[&](Buffers in, Buffers out) {
                                      if (value(in[0]) == 4) return Status(Code::kDevice, "late");
                                      value(out[0]) = value(in[0]);
                                      return Status();
                                    },
                                    [&](Buffers in, Buffers) {
                                      if (value(in[0]) == 1) {
                                        gate.pass();
                                        return Status(Code::kDevice, "early");
                                      }
                                      return Status();
                                    }}),
                             6);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  gate.wait_until_reached();
  if (GetParam() != testing::Threads::kOne) {
    // After frame 4 has failed, no more frames are accepted.
    while (submit(*pipeline, 0, Clock::now() + 1ms).status().code() == Code::kDeadline) {
    }
  }
  gate.open();
  EXPECT_EQ(pipeline->stop(soon()).message(), "stage 1 'stage1' at frame 1: early");
  expect_accounts_balance(pipeline->statistics());
}

TEST_P(PipelineTest, DestroyedWhileRunningItEnds) {
  for (int round = 0; round < 50; ++round) {
    const auto pipeline = make(chain({affine(1), affine(1), affine(1)}), 4);
    for (int i = 0; i < round % 5; ++i) static_cast<void>(submit(*pipeline, i, Clock::now()));
  }
}

TEST_P(PipelineTest, AFullRingIsADeadlineWithItsReason) {
  const auto pipeline = make(chain({affine(1)}), 2);
  ASSERT_TRUE(submit(*pipeline, 0).ok());
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  Result<OutputFrame> kept = pipeline->next(soon());
  ASSERT_TRUE(kept.ok());
  const Status status = submit(*pipeline, 2, Clock::now() + 1ms).status();
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_EQ(status.message(),
            "no free slot before the deadline: all 2 are in use; frame 0 has been taken but not "
            "released");
  EXPECT_EQ(status.hint(),
            "take finished frames and release them, allow more time, or use more slots");
}

TEST_P(PipelineTest, AnEmptyPipelineIsADeadlineThatSaysSo) {
  const auto pipeline = make(chain({affine(1)}));
  EXPECT_EQ(pipeline->next(Clock::now() + 1ms).status().message(),
            "no finished frame before the deadline: none is in the pipeline");
}

TEST_P(PipelineTest, AHandoverCopiesNothing) {
  constexpr std::size_t kSlotCount = 3;
  std::vector<const std::byte*> written;
  std::vector<const std::byte*> read;
  const auto pipeline = make(chain({[&](Buffers in, Buffers out) {
                                      read.push_back(in[0].data);
                                      written.push_back(out[0].data);
                                      return Status();
                                    },
                                    [&](Buffers in, Buffers out) {
                                      EXPECT_EQ(in[0].data, written.back());
                                      out[0].data[0] = std::byte{1};
                                      written.push_back(out[0].data);
                                      return Status();
                                    }}),
                             kSlotCount);
  for (std::size_t frame = 0; frame < 2 * kSlotCount; ++frame) {
    Result<InputFrame> input = pipeline->acquire(soon());
    ASSERT_TRUE(input.ok());
    const std::byte* const filled = input->input(0).data();
    ASSERT_TRUE(pipeline->submit(std::move(*input)).ok());
    Result<OutputFrame> output = pipeline->next(soon());
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(read.back(), filled) << "the first stage reads what the caller filled";
    EXPECT_EQ(output->output(0).data(), written.back()) << "the caller reads what the last wrote";
    EXPECT_EQ(read[frame], read[frame % kSlotCount]) << "a slot keeps its buffers";
  }
}

TEST_P(PipelineTest, AResultThatIsKeptIsNeverOverwritten) {
  const auto pipeline = make(chain({affine(2), affine(3)}), 3);
  ASSERT_TRUE(submit(*pipeline, 7).ok());
  Result<OutputFrame> kept = pipeline->next(soon());
  ASSERT_TRUE(kept.ok());
  std::int64_t sent = 0;
  // The ring continues until it reaches the held slot, and waits there.
  while (submit(*pipeline, ++sent, Clock::now() + 20ms).ok()) {
    ASSERT_TRUE(pipeline->next(soon()).ok());
  }
  EXPECT_EQ(sent, 3);
  EXPECT_EQ(number(kept->output(0)), (7 * 2 + 1) * 3 + 1);
  EXPECT_EQ(number(kept->tensor(0)), 7);
}

TEST_P(PipelineTest, LeasesMayBeReleasedOutOfOrder) {
  const auto pipeline = make(chain({affine(1)}), 2);
  ASSERT_TRUE(submit(*pipeline, 0).ok());
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  auto first = std::make_unique<Result<OutputFrame>>(pipeline->next(soon()));
  { ASSERT_TRUE(pipeline->next(soon()).ok()); }
  EXPECT_EQ(submit(*pipeline, 2, Clock::now()).status().code(), Code::kDeadline);
  first.reset();
  EXPECT_TRUE(submit(*pipeline, 2).ok());
  EXPECT_TRUE(submit(*pipeline, 3).ok());
}

TEST_P(PipelineTest, OfTwoThreadsThatWaitForASlotOneIsRefused) {
  const auto pipeline = make(chain({affine(1)}), 1);
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  std::optional<OutputFrame> taken;
  taken.emplace(*pipeline->next(soon()));
  std::array<Code, 2> codes{};
  std::latch refused(1);
  const auto acquire = [&](Code& code) {
    const Result<InputFrame> frame = pipeline->acquire(soon());
    code = frame.status().code();
    if (frame.ok()) {
      refused.wait();  // holds the lease until then
    } else {
      refused.count_down();
    }
  };
  std::thread first(acquire, std::ref(codes[0]));
  std::thread second(acquire, std::ref(codes[1]));
  std::this_thread::sleep_for(20ms);
  taken.reset();
  first.join();
  second.join();
  EXPECT_THAT(codes, UnorderedElementsAre(Code::kOk, Code::kInvalidArgument));
}

TEST_P(PipelineTest, AnInputLeaseIsExclusiveAndCanBeReturned) {
  const auto pipeline = make(chain({affine(1)}));
  {
    Result<InputFrame> frame = pipeline->acquire(soon());
    ASSERT_TRUE(frame.ok());
    EXPECT_THAT(pipeline->acquire(soon()).status().message(), HasSubstr("already being filled"));
  }
  Result<InputFrame> frame = pipeline->acquire(soon());
  ASSERT_TRUE(frame.ok());
  std::memset(frame->input(0).data(), 0, 8);
  EXPECT_TRUE(pipeline->submit(std::move(*frame)).ok());
  EXPECT_EQ(pipeline->statistics().submitted, 1u);
}

TEST_P(PipelineTest, AnInputOfTheWrongSizeIsRefused) {
  const auto pipeline = make(chain({affine(1)}));
  const std::vector<std::byte> three(3);
  const std::span<const std::byte> bytes(three);
  EXPECT_EQ(pipeline->submit(std::span(&bytes, 1), soon()).status().message(),
            "input 't0' has 3 bytes, expected 8");
}

TEST_P(PipelineTest, StatisticsMeasureEachStageAndTheTotal) {
  const auto sleeps = [](auto duration) {
    return [duration](Buffers, Buffers) {
      std::this_thread::sleep_for(duration);
      return Status();
    };
  };
  const auto pipeline = make(chain({sleeps(1ms), sleeps(4ms)}));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(submit(*pipeline, i).ok());
    ASSERT_TRUE(pipeline->next(soon()).ok());
  }
  const PipelineStatistics statistics = pipeline->statistics();
  ASSERT_EQ(statistics.stages.size(), 2u);
  EXPECT_EQ(statistics.stages[1].name, "stage1");
  EXPECT_EQ(statistics.stages[1].busy.count, 10u);
  EXPECT_GE(statistics.stages[0].busy.min_ms, 1.0);
  EXPECT_GE(statistics.stages[1].busy.min_ms, 4.0);
  EXPECT_GE(statistics.latency.min_ms, 5.0);
  EXPECT_GT(statistics.frames_per_second, 0.0);
  EXPECT_LE(statistics.frames_per_second, 200.0);
  if (GetParam() != testing::Threads::kCrew) {
    EXPECT_EQ(statistics.stages[0].cores.size(), 1u) << "threads are pinned unless asked otherwise";
  }
  EXPECT_THAT(statistics.table(), AllOf(HasSubstr("stage1"), HasSubstr("10 submitted = 10")));
}

TEST(PipelineCreateTest, ACoreThatDoesNotExistIsAnErrorUnlessPinningIsOnlyPreferred) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  const std::vector<Pipeline::StageThread> missing = {{.cores = {Thread::cores().front(), 1000}}};
  const Status status =
      Pipeline::create(chain({affine(1)}), *memory, {.threads = missing}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("thread 'stage0': core 1000 does not exist or is not "
                                          "available to this process, expected " +
                                          std::to_string(Thread::cores().front())));
  Result<std::unique_ptr<Pipeline>> pipeline = Pipeline::create(
      chain({affine(1)}), *memory, {.pinning = Pipeline::Pinning::kPreferred, .threads = missing});
  ASSERT_TRUE(pipeline.ok());
  EXPECT_TRUE((*pipeline)->statistics().stages[0].cores.empty());
}

TEST(PipelineCreateTest, FewerCoresThanStagesAreShared) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  const int core = Thread::cores().front();
  Result<std::unique_ptr<Pipeline>> pipeline = Pipeline::create(
      chain({affine(1), affine(1), affine(1)}), *memory, {.threads = {{.cores = {core}}}});
  ASSERT_TRUE(pipeline.ok());
  for (const StageStatistics& stage : (*pipeline)->statistics().stages) {
    EXPECT_EQ(stage.cores, std::vector{core});
  }
}

TEST(PipelineCreateTest, AStageMayRunOnASetOfCores) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  const auto look = [&](Buffers, Buffers) {
    sched_getaffinity(0, sizeof(seen), &seen);
    return Status();
  };
  const std::vector<int> all = Thread::cores();
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(chain({look}), *memory, {.threads = {{.cores = all}}});
  ASSERT_TRUE(pipeline.ok());
  ASSERT_TRUE(submit(**pipeline, 1).ok());
  ASSERT_TRUE((*pipeline)->next(soon()).ok());
  EXPECT_EQ(CPU_COUNT(&seen), static_cast<int>(all.size()));
  EXPECT_EQ((*pipeline)->statistics().stages[0].cores, all);
}

TEST(PipelineCreateTest, APriorityThatDoesNotExistIsAnError) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  EXPECT_EQ(Pipeline::create(chain({affine(1)}), *memory, {.threads = {{.realtime_priority = 100}}})
                .status()
                .message(),
            "pipeline: thread 'stage0': realtime priority 100 is not in 1..99");
}

TEST(PipelineCreateTest, AStageThatCannotBindIsNamed) {
  class Refuses : public FunctionStage {
   public:
    Refuses() : FunctionStage("body", affine(1)) {}
    Status bind(std::size_t, Buffers, Buffers) override {
      return Status(Code::kInvalidArgument, "input 0 has 8 bytes, expected 16");
    }
  };
  Graph graph = chain({affine(1)});
  graph.nodes[0].stage = std::make_unique<Refuses>();
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  EXPECT_EQ(Pipeline::create(std::move(graph), *memory, {}).status().message(),
            "binding stage 'body': input 0 has 8 bytes, expected 16");
}

TEST(GraphTest, RulesOfAGraphAreCheckedByName) {
  Graph reads_later = chain({affine(1), affine(1)});
  reads_later.nodes[0].reads = {2};
  EXPECT_THAT(reads_later.validate().message(),
              HasSubstr("stage 'stage0' reads 't2', which neither an input nor an earlier stage"));
  Graph writes_twice = chain({affine(1), affine(1)});
  writes_twice.nodes[1].writes = {1};
  EXPECT_THAT(writes_twice.validate().message(),
              HasSubstr("'stage1' writes 't1', which is already"));
  Graph no_output = chain({affine(1)});
  no_output.tensors.push_back({.name = "ghost", .bytes = 8});
  no_output.outputs = {2};
  EXPECT_THAT(no_output.validate().message(), HasSubstr("no stage writes the output 'ghost'"));
  EXPECT_THAT(Graph().validate().message(), HasSubstr("no stages"));
}

}  // namespace
}  // namespace edgepipe
