// BufferView: a piece of memory that both the CPU and the accelerator see.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgepipe {

/// Does not own the memory. A stage's views are valid as long as its pipeline lives and are 64-byte
/// aligned.
struct BufferView {
  std::byte* data = nullptr;         // for the CPU
  std::uint64_t device_address = 0;  // for the accelerator, in bytes
  std::size_t bytes = 0;
};

}  // namespace edgepipe
