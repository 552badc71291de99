#include "checker/dram_span.h"

#include <string>

namespace edgepipe {

DramSpan dram_span(const Accelerator& accelerator, const Instruction& i) {
  const std::uint64_t unit = accelerator.element_bytes(i.memory_type);
  return {.address = i.dram_base * unit,
          .bytes = (std::uint64_t{i.y_size - 1} * i.x_stride + i.x_size) * unit};
}

Result<std::byte*> translate(const DeviceMemory& memory, const DramSpan& span) {
  // An allocation always fits in a size_t; the span of an instruction may not.
  const auto bytes = static_cast<std::size_t>(span.bytes);
  if (bytes == span.bytes) return memory.translate(span.address, bytes);
  return Status(Code::kDevice, std::to_string(span.bytes) + " bytes at " +
                                   std::to_string(span.address) + " are not inside one allocation");
}

}  // namespace edgepipe
