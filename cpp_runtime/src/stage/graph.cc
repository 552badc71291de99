#include "edgepipe/graph.h"

#include <algorithm>
#include <string>

namespace edgepipe {
namespace {

Status invalid(const std::string& text) {
  return Status(Code::kInvalidArgument, "pipeline graph: " + text);
}

}  // namespace

Status Graph::validate() const {
  if (nodes.empty()) return invalid("no stages");
  if (inputs.empty()) return invalid("no inputs");
  if (outputs.empty()) return invalid("no outputs");

  std::vector<bool> written(tensors.size(), false);
  for (const std::size_t input : inputs) {
    if (input >= tensors.size())
      return invalid("input " + std::to_string(input) + " is not a tensor");
    if (written[input]) return invalid("'" + tensors[input].name + "' is listed as an input twice");
    written[input] = true;
  }
  for (const StageNode& node : nodes) {
    if (node.stage == nullptr) return invalid("a stage is null");
    const std::string stage = "stage '" + std::string(node.stage->name()) + "' ";
    for (const std::size_t tensor : node.reads) {
      if (tensor >= tensors.size()) return invalid(stage + "reads a tensor that does not exist");
      if (!written[tensor]) {
        return invalid(stage + "reads '" + tensors[tensor].name +
                       "', which neither an input nor an earlier stage provides");
      }
    }
    for (const std::size_t tensor : node.writes) {
      if (tensor >= tensors.size()) return invalid(stage + "writes a tensor that does not exist");
      if (written[tensor]) {
        return invalid(stage + "writes '" + tensors[tensor].name +
                       "', which is already an input or another stage's output");
      }
      written[tensor] = true;
    }
  }
  for (const std::size_t output : outputs) {
    if (output >= tensors.size()) return invalid("an output is not a tensor");
    if (!written[output]) {
      return invalid("no stage writes the output '" + tensors[output].name + "'");
    }
  }
  for (const std::size_t tensor : kept) {
    if (tensor >= tensors.size()) return invalid("a tensor to keep does not exist");
  }
  return {};
}

std::vector<std::size_t> Graph::producers(std::size_t node) const {
  std::vector<std::size_t> found;
  for (std::size_t other = 0; other < node; ++other) {
    const std::vector<std::size_t>& writes = nodes[other].writes;
    const bool feeds = std::ranges::any_of(nodes[node].reads, [&](std::size_t tensor) {
      return std::ranges::find(writes, tensor) != writes.end();
    });
    if (feeds) found.push_back(other);
  }
  return found;
}

}  // namespace edgepipe
