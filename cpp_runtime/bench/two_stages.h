// A pipeline of two stages on two cores, for the benchmarks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/thread.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/stage.h"

namespace edgepipe::bench {

inline int core_of(std::size_t index) {
  const std::vector<int> cores = Thread::cores();
  return cores[index % cores.size()];
}

inline Result<std::unique_ptr<Pipeline>> two_stages(DeviceMemory& memory, FunctionStage::Body first,
                                                    FunctionStage::Body second,
                                                    Pipeline::Options options = {}) {
  Graph graph;
  for (const char* name : {"in", "between", "out"}) {
    graph.tensors.push_back({.name = name, .dtype = "", .shape = {}, .layout = "", .bytes = 8});
  }
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes.push_back({.stage = std::make_unique<FunctionStage>("first", std::move(first)),
                         .reads = {0},
                         .writes = {1}});
  graph.nodes.push_back({.stage = std::make_unique<FunctionStage>("second", std::move(second)),
                         .reads = {1},
                         .writes = {2}});
  options.threads = {{.cores = {core_of(0)}}, {.cores = {core_of(1)}}};
  return Pipeline::create(std::move(graph), memory, options);
}

inline Status send(Pipeline& pipeline) {
  const std::uint64_t value = 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
  return pipeline.submit(std::span(&bytes, 1), Clock::now() + std::chrono::seconds(60)).status();
}

}  // namespace edgepipe::bench
