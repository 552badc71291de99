// A pipeline.json of arbitrary text is either refused, or all its indices are in range.
#include <cstdlib>

#include "edgepipe/pipeline_session.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto description =
      edgepipe::PipelineDescription::parse(std::as_bytes(std::span(data, bytes)), "pipeline.json");
  if (!description.ok()) return 0;
  const auto check = [&](const std::vector<std::size_t>& indices) {
    for (const std::size_t index : indices) {
      if (index >= description->tensors.size()) std::abort();
    }
  };
  check(description->inputs);
  check(description->outputs);
  for (const edgepipe::StageDescription& stage : description->stages) {
    check(stage.reads);
    check(stage.writes);
  }
  return 0;
}
