// Crews: few threads that share many stages. The tests of every pipeline also run with a crew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "edgepipe/pipeline.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using testing::affine;
using testing::Buffers;
using testing::chain;
using ::testing::ElementsAre;
using testing::Gate;
using testing::number;
using testing::soon;
using testing::submit;
using testing::value;

using Crews = std::vector<Pipeline::Crew>;

class PipelineCrewTest : public ::testing::Test {
 protected:
  std::unique_ptr<Pipeline> make(Graph graph, Crews crews, std::size_t slots = 4) {
    auto made = Pipeline::create(std::move(graph), *memory_,
                                 {.slots = slots, .crews = std::move(crews), .trace_spans = 4096});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *std::move(made) : nullptr;
  }
  Status refused(Crews crews) {
    return Pipeline::create(chain({affine(1), affine(1)}), *memory_, {.crews = std::move(crews)})
        .status();
  }

  std::unique_ptr<HostMemory> memory_ = testing::host_memory();
};

/// A chain of `stages` stages that add 1; those with odd numbers are the crew "odd".
Crews alternating(std::size_t stages, std::size_t threads) {
  Crews crews = {{.name = "even", .stages = {}, .threads = {}},
                 {.name = "odd", .stages = {}, .threads = {}}};
  crews[0].threads.resize(threads);
  crews[1].threads.resize(1);
  for (std::size_t stage = 0; stage < stages; ++stage) crews[stage % 2].stages.push_back(stage);
  return crews;
}

TEST_F(PipelineCrewTest, ManyStagesRunOnFewThreads) {
  constexpr std::size_t kStages = 60;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<FunctionStage::Body> bodies(kStages, [&](Buffers in, Buffers out) {
    const std::scoped_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    value(out[0]) = value(in[0]) + 1;
    return Status();
  });
  const auto pipeline = make(chain(std::move(bodies)), alternating(kStages, 3));
  std::thread producer([&] {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  });
  for (int i = 0; i < 200; ++i) {
    Result<OutputFrame> frame = pipeline->next(soon());
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(number(frame->output(0)), i + static_cast<int>(kStages));
  }
  producer.join();
  EXPECT_TRUE(pipeline->stop(soon()).ok());
  EXPECT_LE(threads.size(), 4U);
}

TEST_F(PipelineCrewTest, AStageRunsItsFramesInOrderAndOneAtATime) {
  std::atomic<int> running = 0;
  std::vector<std::int64_t> order;  // of the second stage; only one thread is in it
  const auto pipeline = make(chain({affine(1),
                                    [&](Buffers in, Buffers) {
                                      EXPECT_EQ(++running, 1);
                                      order.push_back(value(in[0]));
                                      --running;
                                      return Status();
                                    },
                                    affine(1)}),
                             {{.name = "all", .stages = {0, 1, 2}, .threads = {{}, {}, {}}}});
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(submit(*pipeline, i).ok());
    if (i >= 3) ASSERT_TRUE(pipeline->next(soon()).ok());
  }
  ASSERT_TRUE(pipeline->stop(soon()).ok());
  ASSERT_EQ(order.size(), 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i + 1);
}

TEST_F(PipelineCrewTest, TheOldestFrameComesFirst) {
  Gate gate;  // holds frame 0 in stage 0 until three frames are in the pipeline
  std::vector<std::string> order;
  const auto noting = [&](const char* stage, bool held) {
    return [&order, &gate, stage, held](Buffers in, Buffers out) {
      if (held && value(in[0]) == 0) gate.pass();
      value(out[0]) = value(in[0]);
      order.push_back(stage + std::to_string(value(in[0])));
      return Status();
    };
  };
  const auto pipeline = make(chain({noting("a", true), noting("b", false), noting("c", false)}),
                             {{.name = "one", .stages = {0, 1, 2}, .threads = {{}}}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit(*pipeline, i).ok());
  gate.open();
  ASSERT_TRUE(pipeline->stop(soon()).ok());
  EXPECT_THAT(order, ElementsAre("a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"));
}

TEST_F(PipelineCrewTest, CrewsWorkOnSeveralFramesAtOnce) {
  Gate first;
  Gate second;
  const auto held = [](Gate& gate) {
    return [&gate](Buffers in, Buffers out) {
      gate.pass();
      value(out[0]) = value(in[0]);
      return Status();
    };
  };
  const auto pipeline = make(chain({affine(1), held(first), held(second)}),
                             {{.name = "left", .stages = {0, 2}, .threads = {{}}},
                              {.name = "right", .stages = {1}, .threads = {{}}}});
  ASSERT_TRUE(submit(*pipeline, 0).ok());
  ASSERT_TRUE(submit(*pipeline, 1).ok());
  first.wait_until_reached();  // frame 0 is on the right, frame 1 has passed the left
  first.open();
  second.wait_until_reached();
  second.open();
  EXPECT_TRUE(pipeline->stop(soon()).ok());
}

TEST_F(PipelineCrewTest, TheTraceShowsWhichThreadRanAStage) {
  const auto pipeline = make(chain({affine(1), affine(1), affine(1)}), alternating(3, 1));
  ASSERT_TRUE(submit(*pipeline, 0).ok());
  ASSERT_TRUE(pipeline->stop(soon()).ok());
  const PipelineTrace trace = pipeline->trace();
  EXPECT_THAT(trace.threads, ElementsAre("even", "odd"));
  std::vector<std::uint32_t> threads(3);
  for (const Span& span : trace.spans) {
    if (span.kind == Span::Kind::kStage) threads[span.stage] = span.thread;
  }
  EXPECT_THAT(threads, ElementsAre(0U, 1U, 0U));
}

TEST_F(PipelineCrewTest, EveryStageBelongsToOneCrew) {
  EXPECT_EQ(refused({{.name = "a", .stages = {0}, .threads = {{}}}}).message(),
            "pipeline: stage 1 'stage1' belongs to 0 crews, expected 1");
  EXPECT_EQ(refused({{.name = "a", .stages = {0, 1}, .threads = {{}}},
                     {.name = "b", .stages = {1}, .threads = {{}}}})
                .message(),
            "pipeline: stage 1 'stage1' belongs to 2 crews, expected 1");
  EXPECT_EQ(refused({{.name = "a", .stages = {0, 2}, .threads = {{}}}}).message(),
            "pipeline: crew 'a' has stage 2 of 2");
}

TEST_F(PipelineCrewTest, ACrewHasStagesAndThreads) {
  EXPECT_EQ(refused({{.name = "a", .stages = {0, 1}, .threads = {}}}).message(),
            "pipeline: crew 'a' has no thread");
  EXPECT_EQ(refused({{.name = "a", .stages = {}, .threads = {{}}}}).message(),
            "pipeline: crew 'a' has no stage");
}

}  // namespace
}  // namespace edgepipe
