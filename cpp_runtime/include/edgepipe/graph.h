// Graph: the stages of a pipeline and the tensors between them.
//
//   Graph graph;
//   graph.tensors = {{.name = "picture", .bytes = n}, {.name = "features", .bytes = m}};
//   graph.inputs = {0};
//   graph.outputs = {1};
//   graph.nodes.push_back({.stage = std::move(stage), .reads = {0}, .writes = {1}});
//
// Stages are listed in a valid sequential order. A stage may read any tensor that the caller or an
// earlier stage writes, which allows branches, joins and skip edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgepipe/stage.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// One tensor of a graph, of a bundle or of an exported pipeline.
struct TensorSpec {
  std::string name;
  std::string dtype;                // "uint8", "int8", "int16", "int32" or "float32"
  std::vector<std::int64_t> shape;  // logical, e.g. [1, C, H, W], in every layout
  std::string layout;               // "nchw", "nhwc" or "vta" ([C/block][H][W][batch][block]),
                                    // "vta_2x2" or "vta_4x4" (the same of a folded picture)
  std::size_t bytes = 0;            // of one frame in that layout
};

/// When a stage stops using its device, and when it tries the device again (recovering_stage.h).
struct FaultPolicy {
  // After this many hangs in the last `runs` runs, the stage stops using its device.
  std::size_t most_hangs = 3;
  std::size_t runs = 20;
  // While the fallback runs, the device also runs one frame in this many, as a trial. A failed
  // trial doubles the interval, up to 10,000. 0: no trials.
  std::size_t trial_frames = 100;
  std::size_t trials = 3;  // that must pass in a row before the device is used again
};

struct StageNode {
  std::unique_ptr<Stage> stage;
  std::vector<std::size_t> reads;   // indices into Graph::tensors
  std::vector<std::size_t> writes;  // the same; no other stage writes them
  // Computes the same results without the stage's device and takes over if the device fails. If
  // null, the pipeline ends instead.
  std::unique_ptr<Stage> fallback = nullptr;
};

struct Graph {
  std::vector<TensorSpec> tensors;
  std::vector<std::size_t> inputs;   // tensors that the caller fills
  std::vector<std::size_t> outputs;  // tensors that the caller reads
  // Further tensors that are read once the frame is finished. Like inputs and outputs they keep
  // their memory to themselves; that of the others is used again within the frame.
  std::vector<std::size_t> kept = {};
  std::vector<StageNode> nodes;

  /// Checks the rules above; kInvalidArgument names the stage and the tensor that break a rule.
  [[nodiscard]] Status validate() const;

  /// The stages that write the tensors that stage `node` reads, ascending and without duplicates.
  /// Requires a valid graph.
  [[nodiscard]] std::vector<std::size_t> producers(std::size_t node) const;
};

}  // namespace edgepipe
