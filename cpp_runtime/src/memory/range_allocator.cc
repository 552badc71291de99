#include "memory/range_allocator.h"

#include <algorithm>

namespace edgepipe {

std::optional<std::size_t> RangeAllocator::allocate(std::size_t bytes, std::size_t from) {
  bytes = std::max<std::size_t>(bytes, 1);
  MutexLock lock(mutex_);
  std::size_t offset = aligned_bytes(from);  // where the gap under test begins
  for (const auto& [begin, length] : live_) {
    if (begin >= offset && begin - offset >= bytes) break;
    offset = std::max(offset, begin + aligned_bytes(length));
  }
  if (offset > bytes_ || bytes > bytes_ - offset) return std::nullopt;
  live_.emplace(offset, bytes);
  ++generation_;
  return offset;
}

void RangeAllocator::release(std::size_t offset) {
  MutexLock lock(mutex_);
  live_.erase(offset);
  ++generation_;
}

bool RangeAllocator::contains(std::size_t offset, std::size_t bytes) const {
  MutexLock lock(mutex_);
  auto found = live_.upper_bound(offset);
  if (found == live_.begin()) return false;
  --found;
  const std::size_t inside = offset - found->first;
  return inside <= found->second && bytes <= found->second - inside;
}

std::uint64_t RangeAllocator::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

std::string RangeAllocator::usage() const {
  MutexLock lock(mutex_);
  std::size_t used = 0;
  for (const auto& [begin, length] : live_) used += aligned_bytes(length);
  return std::to_string(used) + " of " + std::to_string(bytes_) + " bytes are in use";
}

}  // namespace edgepipe
