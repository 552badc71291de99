// Stages made from functions, for tests of the pipeline, which treats them like any other stage.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "edgepipe/pipeline.h"
#include "edgepipe/stage.h"

namespace edgepipe::testing {

using edgepipe::FunctionStage;
using Buffers = FunctionStage::Views;

inline std::int64_t& value(const BufferView& view) {
  return *reinterpret_cast<std::int64_t*>(view.data);
}

/// Writes first input * factor + 1.
inline FunctionStage::Body affine(std::int64_t factor) {
  return [factor](Buffers inputs, Buffers outputs) {
    value(outputs[0]) = value(inputs[0]) * factor + 1;
    return Status();
  };
}

/// A chain of int64 tensors t0 -> body 0 -> t1 -> body 1 -> t2 ...; stages are "stage0", "stage1".
inline Graph chain(std::vector<FunctionStage::Body> bodies) {
  Graph graph;
  graph.tensors.push_back({.name = "t0", .bytes = 8});
  for (std::size_t index = 0; index < bodies.size(); ++index) {
    graph.tensors.push_back({.name = "t" + std::to_string(index + 1), .bytes = 8});
    graph.nodes.push_back({.stage = std::make_unique<FunctionStage>("stage" + std::to_string(index),
                                                                    std::move(bodies[index])),
                           .reads = {index},
                           .writes = {index + 1}});
  }
  graph.inputs = {0};
  graph.outputs = {bodies.size()};
  return graph;
}

/// Blocks its stage until opened.
class Gate {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() {
    ++waiting_;
    waiting_.notify_all();
    open_.wait(false);
  }
  void wait_until_reached() { waiting_.wait(0); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> waiting_{0};
};

inline std::unique_ptr<HostMemory> host_memory() {
  return std::move(*HostMemory::create({.arena_bytes = std::size_t{1} << 24}));
}

inline Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

inline Result<std::uint64_t> submit(Pipeline& pipeline, std::int64_t number,
                                    Clock::time_point deadline = soon()) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&number, 1));
  return pipeline.submit(std::span(&bytes, 1), deadline);
}

inline std::int64_t number(std::span<const std::byte> bytes) {
  std::int64_t found = 0;
  std::memcpy(&found, bytes.data(), sizeof(found));
  return found;
}

/// The threads of a pipeline: one for each stage, one for all, or two that share the stages.
enum class Threads { kEach, kOne, kCrew };

/// Runs its tests with each kind of threads:
/// INSTANTIATE_TEST_SUITE_P(Modes, MyTest, testing::modes(), testing::mode_name);
class PipelineModeTest : public ::testing::TestWithParam<Threads> {
 protected:
  Result<std::unique_ptr<Pipeline>> create(Graph graph, Pipeline::Options options) {
    if (GetParam() == Threads::kOne) options.mode = Pipeline::Mode::kSerial;
    if (GetParam() == Threads::kCrew) {
      Pipeline::Crew crew{.name = "crew", .stages = {}, .threads = options.threads};
      for (std::size_t stage = 0; stage < graph.nodes.size(); ++stage) crew.stages.push_back(stage);
      if (crew.threads.empty()) crew.threads.resize(2);
      options.crews = {std::move(crew)};
    }
    return Pipeline::create(std::move(graph), *memory_, options);
  }

  std::unique_ptr<Pipeline> make(Graph graph, std::size_t slots = 0) {
    Result<std::unique_ptr<Pipeline>> pipeline = create(std::move(graph), {.slots = slots});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? std::move(*pipeline) : nullptr;
  }

  std::unique_ptr<HostMemory> memory_ = host_memory();
};

inline auto modes() { return ::testing::Values(Threads::kEach, Threads::kOne, Threads::kCrew); }

inline std::string mode_name(const ::testing::TestParamInfo<Threads>& info) {
  if (info.param == Threads::kCrew) return "Crew";
  return info.param == Threads::kOne ? "Serial" : "Pipelined";
}

}  // namespace edgepipe::testing
