#include "pipeline/slot_buffers.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/buffer_plan.h"

namespace edgepipe {
namespace {

constexpr std::size_t kOwnAlignment = 64;  // what stages rely on: BufferView

using Own = std::span<const Pipeline::OwnBuffer>;
using Found = std::vector<std::optional<BufferView>>;  // by slot and tensor

bool touched_by_accelerator(const Graph& graph, std::size_t tensor) {
  return std::ranges::any_of(graph.nodes, [&](const StageNode& node) {
    return node.stage->written_by() == WrittenBy::kAccelerator &&
           (std::ranges::count(node.reads, tensor) + std::ranges::count(node.writes, tensor)) > 0;
  });
}

/// The input or output of that name.
Result<std::size_t> find_port(const Graph& graph, const std::string& name) {
  std::string known;
  for (const auto* const list : {&graph.inputs, &graph.outputs}) {
    for (const std::size_t tensor : *list) {
      if (graph.tensors[tensor].name == name) return tensor;
      known += (known.empty() ? "" : ", ") + graph.tensors[tensor].name;
    }
  }
  return Status(Code::kInvalidArgument,
                "own buffers of '" + name + "': expected an input or output: " + known);
}

Status check(const Graph& graph, std::size_t tensor, std::size_t slots,
             const Pipeline::OwnBuffer& own) {
  const TensorSpec& spec = graph.tensors[tensor];
  const auto wrong = [&](const std::string& text, const char* hint) {
    return Status(Code::kInvalidArgument,
                  "own buffer " + std::to_string(own.slot) + " of '" + spec.name + "': " + text,
                  hint);
  };
  if (own.slot >= slots) {
    return wrong("the pipeline has " + std::to_string(slots) + " slots",
                 "give one buffer for each slot");
  }
  if (own.memory.size() != spec.bytes) {
    return wrong("has " + std::to_string(own.memory.size()) + " bytes, expected " +
                     std::to_string(spec.bytes),
                 "give it the dtype and shape of the tensor");
  }
  if (reinterpret_cast<std::uintptr_t>(own.memory.data()) % kOwnAlignment != 0) {
    return wrong("does not begin at a multiple of 64 bytes",
                 "allocate whole pages, as pynq.allocate does");
  }
  if (touched_by_accelerator(graph, tensor)) {
    return wrong("the accelerator reads or writes this tensor",
                 "let the pipeline allocate it, and read it where it is");
  }
  return {};
}

/// Checks the caller's buffers, and returns them by slot and tensor.
Result<Found> find_own(const Graph& graph, std::size_t slots, Own own) {
  Found found(slots * graph.tensors.size());
  std::vector<std::size_t> counts(graph.tensors.size());
  std::vector<std::span<const std::byte>> used;
  for (const Pipeline::OwnBuffer& buffer : own) {
    const Result<std::size_t> tensor = find_port(graph, buffer.tensor);
    if (!tensor.ok()) return tensor.status();
    if (Status status = check(graph, *tensor, slots, buffer); !status.ok()) return status;
    found[buffer.slot * graph.tensors.size() + *tensor] = BufferView{
        .data = buffer.memory.data(), .device_address = 0, .bytes = buffer.memory.size()};
    ++counts[*tensor];
    used.emplace_back(buffer.memory);
  }
  for (const Pipeline::OwnBuffer& buffer : own) {
    const std::size_t count = counts[*find_port(graph, buffer.tensor)];
    if (count == slots) continue;
    return Status(Code::kInvalidArgument,
                  "own buffers of '" + buffer.tensor + "': found " + std::to_string(count) +
                      ", expected one for each of " + std::to_string(slots) + " slots",
                  "give as many buffers as the pipeline has slots");
  }
  std::ranges::sort(used, std::less<>(), [](const auto& memory) { return memory.data(); });
  for (std::size_t index = 1; index < used.size(); ++index) {
    if (std::less<>()(used[index].data(), used[index - 1].data() + used[index - 1].size())) {
      return Status(Code::kInvalidArgument, "own buffers: two of them share memory",
                    "give every slot a buffer of its own");
    }
  }
  return found;
}

}  // namespace

Result<SlotBuffers> SlotBuffers::create(const Graph& graph, std::size_t slots, DeviceMemory& memory,
                                        Own own) {
  const BufferPlan plan = BufferPlan::of(graph);
  const Result<Found> found = find_own(graph, slots, own);
  if (!found.ok()) return found.status();
  SlotBuffers made(slots, graph.tensors.size());
  made.buffers_.reserve(slots * plan.bytes.size());
  made.views_.reserve(slots * graph.tensors.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Found::value_type* const given = found->data() + slot * graph.tensors.size();
    const std::size_t first = made.buffers_.size();
    for (std::size_t index = 0; index < plan.bytes.size(); ++index) {
      if (given[plan.largest[index]]) {  // inputs and outputs share their buffers with no tensor
        made.buffers_.emplace_back();
        continue;
      }
      Result<Buffer> buffer = memory.allocate(plan.bytes[index]);
      if (!buffer.ok()) {
        return buffer.status().with_context("slot " + std::to_string(slot) + " of " +
                                            std::to_string(slots) + ": tensor '" +
                                            graph.tensors[plan.largest[index]].name + "'");
      }
      made.buffers_.push_back(std::move(*buffer));
    }
    for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
      BufferView view =
          given[tensor].value_or(made.buffers_[first + plan.buffer_of[tensor]].view());
      view.bytes = graph.tensors[tensor].bytes;
      made.views_.push_back(view);
    }
  }
  return made;
}

}  // namespace edgepipe
