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

Result<std::size_t> ArenaMemory::claim(std::size_t /*offset*/, std::size_t /*bytes*/) {
  return std::size_t{0};
}

void ArenaMemory::disclaim(std::size_t /*offset*/, std::size_t /*bytes*/) noexcept {}

/// The offset of a range that neither this process nor another one has.
Result<std::size_t> ArenaMemory::reserve(std::size_t bytes) {
  std::size_t from = 0;
  for (;;) {
    const std::optional<std::size_t> offset = ranges_->allocate(bytes, from);
    if (!offset) {
      return Status(Code::kOutOfMemory,
                    "memory: " + std::to_string(bytes) + " bytes wanted, " + ranges_->usage() +
                        (from == 0 ? "" : " by this process, and some by others,") +
                        " or in pieces that are too small",
                    "use fewer slots, stop other pipelines, or give the board a larger buffer");
    }
    const Result<std::size_t> taken = claim(*offset, bytes);
    if (taken.ok() && *taken == 0) return *offset;
    ranges_->release(*offset);
    if (!taken.ok()) return taken.status();
    from = *taken;
  }
}

void ArenaMemory::before_reuse(const void* owner, const std::function<Status()>& settled) {
  MutexLock lock(mutex_);
  if (settled) {
    settled_[owner] = settled;
  } else {
    settled_.erase(owner);
  }
}

Status ArenaMemory::settle() {
  std::vector<std::function<Status()>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [owner, settled] : settled_) all.push_back(settled);
  }
  for (const std::function<Status()>& settled : all) {
    if (Status status = settled(); !status.ok()) return status;
  }
  return {};
}

Result<Buffer> ArenaMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const Result<std::size_t> offset = reserve(bytes);
  if (!offset.ok()) return offset.status();
  Buffer buffer(this, {.data = mapping_.bytes().data() + *offset,
                       .device_address = address_ + *offset,
                       .bytes = bytes});
  if (Status status = settle(); !status.ok()) return status;
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
  if (keeps_released_) return;
  // In this order, so that another thread cannot claim a range and lose it here.
  disclaim(offset_of(view), view.bytes);
  ranges_->release(offset_of(view));
}

}  // namespace edgepipe
