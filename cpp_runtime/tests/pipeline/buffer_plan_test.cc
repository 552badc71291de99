#include "pipeline/buffer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>

#include "pipeline/slot_buffers.h"
#include "support/pipeline_test_stages.h"
#include "support/recording_memory.h"

namespace edgepipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::soon;

/// A function whose outputs' writer is known.
class KnownStage final : public Stage {
 public:
  KnownStage(std::string name, WrittenBy writer, FunctionStage::Body body = {})
      : writer_(writer), stage_(std::move(name), std::move(body)) {}
  [[nodiscard]] std::string_view name() const override { return stage_.name(); }
  [[nodiscard]] WrittenBy written_by() const override { return writer_; }
  Status bind(std::size_t slot, FunctionStage::Views inputs,
              FunctionStage::Views outputs) override {
    return stage_.bind(slot, inputs, outputs);
  }
  Status run(std::size_t slot) override { return stage_.run(slot); }

 private:
  WrittenBy writer_;
  FunctionStage stage_;
};

constexpr WrittenBy kUnknown = WrittenBy::kUnknown;
constexpr WrittenBy kCpu = WrittenBy::kCpu;
constexpr WrittenBy kAccelerator = WrittenBy::kAccelerator;

/// Tensor 0 is the input, tensor n + 1 the output of stage n, and the last one the graph's output.
struct Made {
  WrittenBy writer;
  std::vector<std::size_t> reads;
  std::size_t bytes = 8;
};

Graph graph_of(std::vector<Made> stages) {
  Graph graph;
  graph.tensors.push_back({.name = "t0", .bytes = 8});
  for (std::size_t n = 0; n < stages.size(); ++n) {
    graph.tensors.push_back({.name = "t" + std::to_string(n + 1), .bytes = stages[n].bytes});
    graph.nodes.push_back(
        {.stage = std::make_unique<KnownStage>("s" + std::to_string(n), stages[n].writer),
         .reads = stages[n].reads,
         .writes = {n + 1}});
  }
  graph.inputs = {0};
  graph.outputs = {stages.size()};
  return graph;
}

bool share(const BufferPlan& plan, std::size_t one, std::size_t other) {
  return plan.buffer_of[one] == plan.buffer_of[other];
}

TEST(BufferPlanTest, TheTensorsOfAChainTakeTurnsInTwoBuffers) {
  const BufferPlan plan =
      BufferPlan::of(graph_of({{kCpu, {0}}, {kCpu, {1}}, {kCpu, {2}}, {kCpu, {3}}, {kCpu, {4}}}));
  EXPECT_TRUE(share(plan, 1, 3));
  EXPECT_TRUE(share(plan, 2, 4));
  EXPECT_FALSE(share(plan, 1, 2)) << "a stage reads one while it writes the other";
  EXPECT_EQ(plan.bytes.size(), 4u) << "these two, the input and the output";
}

TEST(BufferPlanTest, ABufferIsAsLargeAsItsLargestTensor) {
  const BufferPlan plan = BufferPlan::of(graph_of(
      {{kCpu, {0}, 10}, {kCpu, {1}, 300}, {kCpu, {2}, 200}, {kCpu, {3}, 20}, {kCpu, {4}}}));
  ASSERT_TRUE(share(plan, 1, 3));
  ASSERT_TRUE(share(plan, 2, 4));
  EXPECT_EQ(plan.bytes[plan.buffer_of[1]], 200u);
  EXPECT_EQ(plan.largest[plan.buffer_of[1]], 3u);
  EXPECT_EQ(plan.bytes[plan.buffer_of[2]], 300u);
}

TEST(BufferPlanTest, TheCpuAndTheAcceleratorNeverWriteToTheSameBuffer) {
  const BufferPlan plan = BufferPlan::of(graph_of({{kCpu, {0}},
                                                   {kAccelerator, {1}},
                                                   {kCpu, {2}},
                                                   {kAccelerator, {3}},
                                                   {kCpu, {4}},
                                                   {kAccelerator, {5}},
                                                   {kCpu, {6}}}));
  EXPECT_TRUE(share(plan, 1, 3));
  EXPECT_TRUE(share(plan, 3, 5));
  EXPECT_TRUE(share(plan, 2, 4));
  EXPECT_TRUE(share(plan, 4, 6));
  EXPECT_FALSE(share(plan, 1, 4)) << "the latter is written long after the former is read";
}

TEST(BufferPlanTest, ATensorKeepsItsMemoryUntilItsLastReaderHasFinished) {
  const BufferPlan plan = BufferPlan::of(
      graph_of({{kCpu, {0}}, {kCpu, {1}}, {kCpu, {2}}, {kCpu, {3, 1}}, {kCpu, {4}}, {kCpu, {5}}}));
  EXPECT_FALSE(share(plan, 1, 3)) << "the fourth stage still reads tensor 1";
  EXPECT_FALSE(share(plan, 1, 4)) << "and writes tensor 4 meanwhile";
  EXPECT_EQ(plan.bytes.size(), 5u) << "input, output, and three: tensors 4 and 5 find room";
}

TEST(BufferPlanTest, BranchesThatMayRunAtOnceShareNothing) {
  // Two branches of two stages, which join at the end.
  const BufferPlan plan = BufferPlan::of(
      graph_of({{kCpu, {0}}, {kCpu, {1}}, {kCpu, {0}}, {kCpu, {3}}, {kCpu, {2, 4}}}));
  EXPECT_EQ(std::set(plan.buffer_of.begin(), plan.buffer_of.end()).size(), 6u);
}

TEST(BufferPlanTest, InputsOutputsAndKeptTensorsHaveBuffersOfTheirOwn) {
  Graph graph = graph_of({{kCpu, {0}}, {kCpu, {1}}, {kCpu, {2}}, {kCpu, {3}}, {kCpu, {4}}});
  graph.outputs.push_back(1);
  graph.kept = {2};
  const BufferPlan plan = BufferPlan::of(graph);
  for (const std::size_t own : {0u, 1u, 2u, 5u}) {
    EXPECT_EQ(std::ranges::count(plan.buffer_of, plan.buffer_of[own]), 1) << own;
  }
}

TEST(BufferPlanTest, WhatAStageOfAnUnknownWriterTouchesHasABufferOfItsOwn) {
  const BufferPlan plan = BufferPlan::of(
      graph_of({{kCpu, {0}}, {kCpu, {1}}, {kUnknown, {2}}, {kCpu, {3}}, {kCpu, {4}}, {kCpu, {5}}}));
  for (const std::size_t own : {2u, 3u}) {
    EXPECT_EQ(std::ranges::count(plan.buffer_of, plan.buffer_of[own]), 1) << own;
  }
  EXPECT_TRUE(share(plan, 1, 4));
}

TEST(BufferPlanTest, AFallbackOfAnUnknownWriterCountsToo) {
  Graph graph = graph_of({{kCpu, {0}}, {kCpu, {1}}, {kCpu, {2}}, {kCpu, {3}}, {kCpu, {4}}});
  ASSERT_TRUE(share(BufferPlan::of(graph), 1, 3));
  graph.nodes[0].fallback = std::make_unique<KnownStage>("fallback", kAccelerator);
  EXPECT_TRUE(share(BufferPlan::of(graph), 1, 3)) << "the pipeline flushes what a fallback wrote";
  graph.nodes[0].fallback = std::make_unique<KnownStage>("fallback", kUnknown);
  EXPECT_FALSE(share(BufferPlan::of(graph), 1, 3));
}

TEST(BufferPlanTest, AKeptTensorThatDoesNotExistIsRefused) {
  Graph graph = graph_of({{kCpu, {0}}});
  graph.kept = {2};
  EXPECT_THAT(graph.validate().message(), HasSubstr("a tensor to keep does not exist"));
}

TEST(SlotBuffersTest, SlotsHaveTheBuffersOfThePlanAndViewsOfTheTensorsSizes) {
  const std::unique_ptr<HostMemory> host = testing::host_memory();
  testing::RecordingMemory memory(*host);
  const Graph graph = graph_of({{kCpu, {0}, 16}, {kCpu, {1}, 16}, {kCpu, {2}, 5}, {kCpu, {3}}});
  Result<SlotBuffers> buffers = SlotBuffers::create(graph, 3, memory);
  ASSERT_TRUE(buffers.ok());
  EXPECT_EQ(memory.allocations, 3u * 4);
  EXPECT_EQ(buffers->view(0, 3).bytes, 5u);
  EXPECT_EQ(buffers->view(0, 3).data, buffers->view(0, 1).data);
  EXPECT_EQ(buffers->view(0, 3).device_address, buffers->view(0, 1).device_address);
  EXPECT_NE(buffers->view(1, 3).data, buffers->view(0, 3).data) << "other frames are elsewhere";

  memory.fail_after = memory.allocations + 4;
  EXPECT_EQ(SlotBuffers::create(graph, 3, memory).status().message(),
            "slot 1 of 3: tensor 't1': injected allocation failure");
}

// ---- buffers of the caller's

/// Memory for the input t0 and the output t2, 8 bytes each, in two slots.
struct OwnMemory {
  alignas(64) std::array<std::array<std::byte, 64>, 4> rows{};

  std::vector<Pipeline::OwnBuffer> buffers() {
    std::vector<Pipeline::OwnBuffer> made;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      made.push_back({.tensor = row < 2 ? "t0" : "t2",
                      .slot = row % 2,
                      .memory = std::span(rows[row]).first(8)});
    }
    return made;
  }
};

TEST(SlotBuffersTest, InputsAndOutputsCanBeInTheCallersMemory) {
  const std::unique_ptr<HostMemory> host = testing::host_memory();
  testing::RecordingMemory memory(*host);
  OwnMemory own;
  const Graph graph = graph_of({{kCpu, {0}}, {kCpu, {1}}});
  Result<SlotBuffers> buffers = SlotBuffers::create(graph, 2, memory, own.buffers());
  ASSERT_TRUE(buffers.ok()) << buffers.status().message();
  EXPECT_EQ(memory.allocations, 2u) << "only the tensor in between";
  EXPECT_EQ(buffers->view(0, 0).data, own.rows[0].data());
  EXPECT_EQ(buffers->view(1, 0).data, own.rows[1].data());
  EXPECT_EQ(buffers->view(0, 2).data, own.rows[2].data());
  EXPECT_EQ(buffers->view(1, 2).data, own.rows[3].data());
  EXPECT_EQ(buffers->view(1, 2).bytes, 8u);
}

TEST(SlotBuffersTest, WrongBuffersOfTheCallerAreRefused) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  OwnMemory own;
  const auto refused = [&](auto change, WrittenBy first = kCpu) {
    std::vector<Pipeline::OwnBuffer> buffers = own.buffers();
    change(buffers);
    const Graph graph = graph_of({{first, {0}}, {kCpu, {1}}});
    return SlotBuffers::create(graph, 2, *memory, buffers).status();
  };
  Status status = refused([](auto& own) { own[0].tensor = "t1"; });
  EXPECT_EQ(status.message(), "own buffers of 't1': expected an input or output: t0, t2");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  status = refused([](auto& own) { own[1].slot = 2; });
  EXPECT_EQ(status.message(), "own buffer 2 of 't0': the pipeline has 2 slots");
  EXPECT_EQ(status.hint(), "give one buffer for each slot");
  status = refused([&](auto& all) { all[2].memory = std::span(own.rows[2]).first(9); });
  EXPECT_EQ(status.message(), "own buffer 0 of 't2': has 9 bytes, expected 8");
  EXPECT_EQ(status.hint(), "give it the dtype and shape of the tensor");
  status = refused([&](auto& all) { all[2].memory = std::span(own.rows[2]).subspan(4, 8); });
  EXPECT_EQ(status.message(), "own buffer 0 of 't2': does not begin at a multiple of 64 bytes");
  EXPECT_EQ(status.hint(), "allocate whole pages, as pynq.allocate does");
  status = refused([](auto&) {}, kAccelerator);
  EXPECT_EQ(status.message(), "own buffer 0 of 't0': the accelerator reads or writes this tensor");
  EXPECT_EQ(status.hint(), "let the pipeline allocate it, and read it where it is");
  status = refused([](auto& own) { own.pop_back(); });
  EXPECT_EQ(status.message(), "own buffers of 't2': found 1, expected one for each of 2 slots");
  EXPECT_EQ(status.hint(), "give as many buffers as the pipeline has slots");
  status = refused([](auto& own) { own[3].memory = own[0].memory; });
  EXPECT_EQ(status.message(), "own buffers: two of them share memory");
  EXPECT_EQ(status.hint(), "give every slot a buffer of its own");
}

// ---- graphs of all shapes, run by all kinds of threads

/// A random graph, whose stages fill their outputs with bytes that depend on all bytes they read.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : random_(seed), seed_(seed) {
    const std::size_t stages = pick(3, 12);
    bytes_.push_back(8);
    for (std::size_t n = 0; n < stages; ++n) {
      // Mostly from the stages just before, so that lives end and memory is used again.
      std::set<std::size_t> reads;
      for (std::size_t count = pick(1, 2); count > 0; --count) {
        const std::size_t newest = bytes_.size() - 1;
        reads.insert(newest - std::min(newest, pick(0, 5) == 0 ? pick(0, newest) : pick(0, 1)));
      }
      const std::size_t writes = pick(1, 2);
      reads_.emplace_back(reads.begin(), reads.end());
      writes_.emplace_back();
      for (std::size_t w = 0; w < writes; ++w) {
        writes_.back().push_back(bytes_.size());
        bytes_.push_back(pick(1, 3000));
      }
      writers_.push_back(std::array{kCpu, kCpu, kAccelerator, kUnknown}[pick(0, 3)]);
    }
  }

  [[nodiscard]] Graph graph() const {
    Graph graph;
    for (std::size_t n = 0; n < bytes_.size(); ++n) {
      graph.tensors.push_back({.name = "t" + std::to_string(n), .bytes = bytes_[n]});
    }
    graph.inputs = {0};
    graph.outputs = outputs();
    for (std::size_t n = 0; n < reads_.size(); ++n) {
      auto body = [salt = seed_ + n](FunctionStage::Views in, FunctionStage::Views out) {
        compute(salt, in, out);
        return Status();
      };
      graph.nodes.push_back({.stage = std::make_unique<KnownStage>("s" + std::to_string(n),
                                                                   writers_[n], std::move(body)),
                             .reads = reads_[n],
                             .writes = writes_[n]});
    }
    return graph;
  }

  /// The last stage's outputs, and at times a tensor from the middle.
  [[nodiscard]] std::vector<std::size_t> outputs() const {
    std::vector<std::size_t> found = writes_.back();
    if (seed_ % 3 == 0) found.push_back(writes_.front().front());
    return found;
  }

  /// All tensors of a frame, each in memory of its own.
  [[nodiscard]] std::vector<std::vector<std::byte>> expected(std::int64_t input) const {
    std::vector<std::vector<std::byte>> tensors;
    for (const std::size_t bytes : bytes_) tensors.emplace_back(bytes);
    std::memcpy(tensors[0].data(), &input, sizeof(input));
    for (std::size_t n = 0; n < reads_.size(); ++n) {
      const auto views = [&](const std::vector<std::size_t>& of) {
        std::vector<BufferView> made;
        for (const std::size_t t : of) {
          made.push_back({.data = tensors[t].data(), .bytes = tensors[t].size()});
        }
        return made;
      };
      compute(seed_ + n, views(reads_[n]), views(writes_[n]));
    }
    return tensors;
  }

 private:
  static void compute(std::size_t salt, FunctionStage::Views in, FunctionStage::Views out) {
    std::uint32_t sum = static_cast<std::uint32_t>(salt) * 2654435761u;
    for (const BufferView& view : in) {
      for (std::size_t n = 0; n < view.bytes; ++n) {
        sum = sum * 31 + std::to_integer<std::uint32_t>(view.data[n]);
      }
    }
    for (const BufferView& view : out) {
      for (std::size_t n = 0; n < view.bytes; ++n) {
        sum = sum * 1664525u + 1013904223u;
        view.data[n] = static_cast<std::byte>(sum >> 24);
      }
    }
  }

  std::size_t pick(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }

  std::mt19937 random_;
  std::uint32_t seed_;
  std::vector<std::size_t> bytes_;  // by tensor
  std::vector<std::vector<std::size_t>> reads_;
  std::vector<std::vector<std::size_t>> writes_;
  std::vector<WrittenBy> writers_;
};

class SharedBuffersTest : public testing::PipelineModeTest {};

INSTANTIATE_TEST_SUITE_P(Modes, SharedBuffersTest, testing::modes(), testing::mode_name);

TEST_P(SharedBuffersTest, EveryGraphComputesWhatItDoesWithoutSharing) {
  std::size_t shared = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const RandomGraph made(seed);
    Graph graph = made.graph();
    ASSERT_TRUE(graph.validate().ok());
    const BufferPlan plan = BufferPlan::of(graph);
    shared += graph.tensors.size() - plan.bytes.size();
    const auto pipeline = make(std::move(graph), 1 + seed % 4);
    ASSERT_NE(pipeline, nullptr);
    std::int64_t submitted = 0;
    for (std::int64_t taken = 0; taken < 12; ++taken) {
      while (submitted < 12 && pipeline->has_slot()) {
        ASSERT_TRUE(testing::submit(*pipeline, submitted++).ok());
      }
      Result<OutputFrame> frame = pipeline->next(soon());
      ASSERT_TRUE(frame.ok()) << frame.status().message();
      const auto expected = made.expected(taken);
      for (std::size_t n = 0; n < made.outputs().size(); ++n) {
        ASSERT_TRUE(std::ranges::equal(frame->output(n), expected[made.outputs()[n]]))
            << "graph " << seed << ", frame " << taken << ", output " << n;
      }
    }
  }
  EXPECT_GT(shared, 60u) << "the graphs do not test sharing";
}

}  // namespace
}  // namespace edgepipe
