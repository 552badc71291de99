// SlotBuffers: the memory of a pipeline's slots, with the buffers of a BufferPlan in every slot.
//
//   Result<SlotBuffers> buffers = SlotBuffers::create(graph, 4, memory);
//   const BufferView& view = buffers->view(slot, tensor);
//
// Allocated once; the pipeline tracks which frame owns a slot.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "edgepipe/graph.h"
#include "edgepipe/memory.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/status.h"

namespace edgepipe {

class SlotBuffers {
 public:
  /// Allocates the buffers of `slots` frames from `memory`, which must outlive the result, except
  /// those in `own`. kInvalidArgument if these break the rules of Pipeline::OwnBuffer. Requires a
  /// valid graph.
  static Result<SlotBuffers> create(const Graph& graph, std::size_t slots, DeviceMemory& memory,
                                    std::span<const Pipeline::OwnBuffer> own = {});

  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] const BufferView& view(std::size_t slot, std::size_t tensor) const {
    return views_[slot * tensors_ + tensor];
  }

 private:
  SlotBuffers(std::size_t slots, std::size_t tensors) : slots_(slots), tensors_(tensors) {}

  std::size_t slots_;
  std::size_t tensors_;
  std::vector<Buffer> buffers_;
  std::vector<BufferView> views_;  // by slot and tensor
};

}  // namespace edgepipe
