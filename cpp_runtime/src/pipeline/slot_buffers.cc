#include "pipeline/slot_buffers.h"

#include <string>
#include <utility>

#include "pipeline/buffer_plan.h"

namespace edgepipe {

Result<SlotBuffers> SlotBuffers::create(const Graph& graph, std::size_t slots,
                                        DeviceMemory& memory) {
  const BufferPlan plan = BufferPlan::of(graph);
  SlotBuffers made(slots, graph.tensors.size());
  made.buffers_.reserve(slots * plan.bytes.size());
  made.views_.reserve(slots * graph.tensors.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::size_t first = made.buffers_.size();
    for (std::size_t index = 0; index < plan.bytes.size(); ++index) {
      Result<Buffer> buffer = memory.allocate(plan.bytes[index]);
      if (!buffer.ok()) {
        return buffer.status().with_context("slot " + std::to_string(slot) + " of " +
                                            std::to_string(slots) + ": tensor '" +
                                            graph.tensors[plan.largest[index]].name + "'");
      }
      made.buffers_.push_back(std::move(*buffer));
    }
    for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
      BufferView view = made.buffers_[first + plan.buffer_of[tensor]].view();
      view.bytes = graph.tensors[tensor].bytes;
      made.views_.push_back(view);
    }
  }
  return made;
}

}  // namespace edgepipe
