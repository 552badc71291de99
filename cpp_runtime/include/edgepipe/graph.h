// Graph: the stages of a pipeline and the tensors between them.
//
//   Graph graph;
//   graph.tensors = {{.name = "picture", .bytes = n}, {.name = "features", .bytes = m}};
//   graph.inputs = {0};
//   graph.outputs = {1};
//   graph.nodes.push_back({.stage = std::move(stage), .reads = {0}, .writes = {1}});
//
// Stages are listed in an order in which they could run one after the other; a stage may read any
// tensor that the caller or an earlier stage writes, so branches, joins and skip edges are plain.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "edgepipe/stage.h"
#include "edgepipe/status.h"
#include "edgepipe/tensor.h"

namespace edgepipe {

struct StageNode {
  std::unique_ptr<Stage> stage;
  std::vector<std::size_t> reads;   // indices into Graph::tensors
  std::vector<std::size_t> writes;  // likewise; no other stage writes them
  // Gives the same results without the stage's device; takes over when that fails. None: the
  // pipeline ends then.
  std::unique_ptr<Stage> fallback = nullptr;
};

struct Graph {
  std::vector<TensorSpec> tensors;
  std::vector<std::size_t> inputs;   // tensors that the caller fills
  std::vector<std::size_t> outputs;  // tensors that the caller is interested in
  std::vector<StageNode> nodes;

  /// Checks the rules above; kInvalidArgument names the stage and the tensor that break one.
  [[nodiscard]] Status validate() const;

  /// The stages that write what stage `node` reads, ascending, each once. Needs a valid graph.
  [[nodiscard]] std::vector<std::size_t> producers(std::size_t node) const;
};

}  // namespace edgepipe
