#include "own_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

using edgepipe::Buffer;
using edgepipe::BufferView;
using edgepipe::Code;
using edgepipe::Result;
using edgepipe::Status;

OwnMemory::OwnMemory() : memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBytes))) {}

Result<Buffer> OwnMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  for (const auto& [begin, length] : live_) {
    if (begin - offset >= bytes) break;
    offset = (begin + length + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (offset > kBytes || bytes > kBytes - offset) {
    return Status(Code::kOutOfMemory, "own memory: " + std::to_string(bytes) +
                                          " bytes wanted, no gap among its " +
                                          std::to_string(kBytes) + " bytes is as wide");
  }
  live_.emplace(offset, bytes);
  ++generation_;
  std::memset(memory_.get() + offset, 0, bytes);
  return Buffer(
      this,
      {.data = memory_.get() + offset, .device_address = kBaseAddress + offset, .bytes = bytes});
}

Result<std::byte*> OwnMemory::translate(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, length] : live_) {
    const std::uint64_t first = kBaseAddress + begin;
    if (address < first || address - first > length) continue;
    const auto inside = static_cast<std::size_t>(address - first);
    if (bytes <= length - inside) return memory_.get() + begin + inside;
  }
  return Status(Code::kDevice, "own memory: " + std::to_string(bytes) + " bytes at " +
                                   std::to_string(address) + " are not in one allocation");
}

std::uint64_t OwnMemory::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

void OwnMemory::release(const BufferView& view) noexcept {
  const std::lock_guard lock(mutex_);
  live_.erase(static_cast<std::size_t>(view.device_address - kBaseAddress));
  ++generation_;
}
