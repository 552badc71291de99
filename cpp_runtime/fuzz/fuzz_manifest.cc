// A manifest of arbitrary text is either refused, or all its indices are in range.
#include <algorithm>
#include <cstdlib>

#include "edgepipe/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto manifest = edgepipe::parse_manifest(std::as_bytes(std::span(data, bytes)));
  if (!manifest.ok()) return 0;
  const auto in_range = [&](const std::vector<std::size_t>& indices) {
    return std::ranges::all_of(indices,
                               [&](std::size_t i) { return i < manifest->tensors.size(); });
  };
  bool good = in_range(manifest->inputs) && in_range(manifest->outputs) &&
              in_range(manifest->postprocess.scores) && in_range(manifest->postprocess.distances) &&
              in_range(manifest->postprocess.outputs) && in_range(manifest->postprocess.centers) &&
              in_range(manifest->postprocess.landmarks);
  for (const edgepipe::StageSpec& stage : manifest->stages) {
    good = good && in_range(stage.reads) && in_range(stage.writes);
  }
  if (!good) std::abort();
  return 0;
}
