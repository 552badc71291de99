// SlotBuffers: the memory of a pipeline's slots, one buffer per slot and tensor.
//
//   Result<SlotBuffers> buffers = SlotBuffers::create(graph.tensors, 4, memory);
//   const BufferView& view = buffers->view(slot, tensor);
//
// Allocated once; the pipeline tracks which frame owns a slot.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "edgepipe/graph.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

class SlotBuffers {
 public:
  /// Allocates slots x tensors buffers from `memory`, which must outlive the result.
  static Result<SlotBuffers> create(std::span<const TensorSpec> tensors, std::size_t slots,
                                    DeviceMemory& memory);

  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] const BufferView& view(std::size_t slot, std::size_t tensor) const {
    return buffers_[slot * tensors_ + tensor].view();
  }

 private:
  SlotBuffers(std::size_t slots, std::size_t tensors) : slots_(slots), tensors_(tensors) {}

  std::size_t slots_;
  std::size_t tensors_;
  std::vector<Buffer> buffers_;
};

}  // namespace edgepipe
