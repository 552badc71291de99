#include "memory/arena_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "memory/range_allocator.h"

namespace edgepipe {

ArenaMemory::ArenaMemory(SharedMapping mapping, std::uint64_t address)
    : mapping_(std::move(mapping)),
      address_(address),
      ranges_(std::make_unique<RangeAllocator>(mapping_.bytes().size())) {}

ArenaMemory::~ArenaMemory() = default;

Result<Buffer> ArenaMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::optional<std::size_t> offset = ranges_->allocate(bytes);
  if (!offset) {
    return Status(Code::kOutOfMemory,
                  "memory: " + std::to_string(bytes) + " bytes wanted, " + ranges_->usage() +
                      " or in pieces that are too small",
                  "use fewer slots, stop other pipelines, or give the board a larger buffer");
  }
  Buffer buffer(this, {.data = mapping_.bytes().data() + *offset,
                       .device_address = address_ + *offset,
                       .bytes = bytes});
  std::memset(buffer.data(), 0, bytes);
  // The zeros must not be written back later, over data from the accelerator.
  flush(buffer.view());
  return buffer;
}

Result<std::byte*> ArenaMemory::translate(std::uint64_t address, std::size_t bytes) const {
  if (address >= address_ && address - address_ <= mapping_.bytes().size()) {
    const auto offset = static_cast<std::size_t>(address - address_);
    if (ranges_->contains(offset, bytes)) return mapping_.bytes().data() + offset;
  }
  return Status(Code::kDevice, "memory: " + std::to_string(bytes) + " bytes at " +
                                   std::to_string(address) + " are not in any allocation");
}

std::uint64_t ArenaMemory::generation() const { return ranges_->generation(); }

void ArenaMemory::flush(const BufferView& view) { maintain(view, Direction::kToDevice); }

void ArenaMemory::invalidate(const BufferView& view) { maintain(view, Direction::kFromDevice); }

void ArenaMemory::maintain(const BufferView& view, Direction direction) {
  Status status = sync(offset_of(view), view.bytes, direction);
  if (status.ok()) return;
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  failed_ = true;
}

Status ArenaMemory::maintained() const {
  if (!failed_) return {};
  MutexLock lock(mutex_);
  return failure_;
}

void ArenaMemory::release(const BufferView& view) noexcept {
  if (!keeps_released_) ranges_->release(offset_of(view));
}

}  // namespace edgepipe
