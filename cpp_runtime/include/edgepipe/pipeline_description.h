// PipelineDescription: the contents of pipeline.json in the folder of an exported pipeline.
//
//   Result<PipelineDescription> description = PipelineDescription::parse(text, "pipeline.json");
//
// Written by edgepipe/pipeline/artifact.py. Every path is relative to the folder, so the
// folder can be moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/status.h"
#include "edgepipe/tensor.h"

namespace edgepipe {

struct StageDescription {
  std::string name;
  std::string kind;  // "arm", "bundle", "library", or a kind that the host program runs
  std::vector<std::size_t> reads;   // indices into PipelineDescription::tensors
  std::vector<std::size_t> writes;  // the same
  std::vector<int> cores;           // one thread on each; empty: one unpinned thread
  std::string path;                 // the folder, bundle or library; empty for a host's kind
  std::string symbol;               // the library's function, or the bundle's stage
};

struct PipelineDescription {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<std::size_t> inputs;   // indices into tensors
  std::vector<std::size_t> outputs;  // the same
  std::vector<StageDescription> stages;

  static constexpr std::uint64_t kFormat = 3;

  /// kCorrupt, with `where` and the field, for an invalid text; kUnsupported for another format.
  /// Whether the stages form a graph is checked by Graph::validate.
  static Result<PipelineDescription> parse(std::span<const std::byte> text,
                                           const std::string& where);
};

}  // namespace edgepipe
