#include "pipeline/slot_buffers.h"

#include <string>
#include <utility>

namespace edgepipe {

Result<SlotBuffers> SlotBuffers::create(std::span<const TensorSpec> tensors, std::size_t slots,
                                        DeviceMemory& memory) {
  SlotBuffers made(slots, tensors.size());
  made.buffers_.reserve(slots * tensors.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    for (const TensorSpec& tensor : tensors) {
      Result<Buffer> buffer = memory.allocate(tensor.bytes);
      if (!buffer.ok()) {
        return buffer.status().with_context("slot " + std::to_string(slot) + " of " +
                                            std::to_string(slots) + ": tensor '" + tensor.name +
                                            "'");
      }
      made.buffers_.push_back(std::move(*buffer));
    }
  }
  return made;
}

}  // namespace edgepipe
