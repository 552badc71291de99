#include "pipeline/buffer_plan.h"

#include <algorithm>
#include <numeric>

namespace edgepipe {
namespace {

/// What becomes of a tensor within a frame.
struct Life {
  bool shares = false;
  WrittenBy written_by = WrittenBy::kUnknown;
  std::size_t producer = 0;
  std::vector<std::size_t> users;  // the stages that write or read it
};

/// For each stage, whether another has finished before it begins, whatever threads run them.
std::vector<std::vector<bool>> ancestors(const Graph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (std::size_t stage = 0; stage < count; ++stage) {
    for (const std::size_t producer : graph.producers(stage)) {
      before[stage][producer] = true;
      for (std::size_t other = 0; other < producer; ++other) {
        if (before[producer][other]) before[stage][other] = true;
      }
    }
  }
  return before;
}

std::vector<Life> lives(const Graph& graph) {
  std::vector<Life> found(graph.tensors.size());
  std::vector<bool> owned(graph.tensors.size(), false);
  for (const auto* const list : {&graph.inputs, &graph.outputs, &graph.kept}) {
    for (const std::size_t tensor : *list) owned[tensor] = true;
  }
  for (std::size_t stage = 0; stage < graph.nodes.size(); ++stage) {
    const StageNode& node = graph.nodes[stage];
    WrittenBy writer = node.stage->written_by();
    if (node.fallback && node.fallback->written_by() == WrittenBy::kUnknown) {
      writer = WrittenBy::kUnknown;
    }
    for (const std::size_t tensor : node.writes) {
      found[tensor] = {
          .shares = !owned[tensor], .written_by = writer, .producer = stage, .users = {stage}};
    }
    for (const auto* const list : {&node.reads, &node.writes}) {
      for (const std::size_t tensor : *list) {
        if (writer == WrittenBy::kUnknown) found[tensor].shares = false;
        if (list == &node.reads) found[tensor].users.push_back(stage);
      }
    }
  }
  return found;
}

}  // namespace

BufferPlan BufferPlan::of(const Graph& graph) {
  const std::vector<Life> life = lives(graph);
  const std::vector<std::vector<bool>> before = ancestors(graph);
  const auto ends_before = [&](const Life& one, const Life& other) {
    return std::ranges::all_of(one.users,
                               [&](std::size_t user) { return before[other.producer][user]; });
  };

  // Large tensors first, so that a buffer has the size of its first tensor.
  std::vector<std::size_t> order(graph.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return graph.tensors[a].bytes > graph.tensors[b].bytes;
  });

  BufferPlan plan{
      .buffer_of = std::vector<std::size_t>(graph.tensors.size()), .bytes = {}, .largest = {}};
  std::vector<std::vector<std::size_t>> members;  // by buffer; empty if it is not shared
  for (const std::size_t tensor : order) {
    const Life& mine = life[tensor];
    const auto fits = [&](std::size_t other) {
      return life[other].written_by == mine.written_by &&
             (ends_before(life[other], mine) || ends_before(mine, life[other]));
    };
    const auto room = std::ranges::find_if(members, [&](const std::vector<std::size_t>& each) {
      return mine.shares && !each.empty() && std::ranges::all_of(each, fits);
    });
    const auto buffer = static_cast<std::size_t>(room - members.begin());
    if (room == members.end()) {
      members.emplace_back();
      plan.bytes.push_back(graph.tensors[tensor].bytes);
      plan.largest.push_back(tensor);
    }
    if (mine.shares) members[buffer].push_back(tensor);
    plan.buffer_of[tensor] = buffer;
  }
  return plan;
}

}  // namespace edgepipe
