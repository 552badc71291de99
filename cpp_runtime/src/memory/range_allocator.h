// RangeAllocator: allocates ranges of [0, bytes), first fit, aligned to DeviceMemory::kAlignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "edgepipe/memory.h"
#include "edgepipe/sync.h"

namespace edgepipe {

/// `bytes`, rounded up to the next possible offset.
constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + DeviceMemory::kAlignment - 1) / DeviceMemory::kAlignment *
         DeviceMemory::kAlignment;
}

/// Thread-safe; takes a lock and may allocate.
class RangeAllocator {
 public:
  explicit RangeAllocator(std::size_t bytes) : bytes_(bytes) {}

  /// Returns the offset of `bytes` (0 counts as 1) that overlap no live range, the first one that
  /// is not below `from`, if there is room.
  std::optional<std::size_t> allocate(std::size_t bytes, std::size_t from = 0);

  /// Releases a live range by its offset.
  void release(std::size_t offset);

  /// True if [offset, offset + bytes) is inside one live range.
  [[nodiscard]] bool contains(std::size_t offset, std::size_t bytes) const;

  /// Changes with every allocate and release.
  [[nodiscard]] std::uint64_t generation() const;

  /// Live and total bytes, for error texts.
  [[nodiscard]] std::string usage() const;

 private:
  const std::size_t bytes_;
  mutable Mutex mutex_;
  std::map<std::size_t, std::size_t> live_ EDGEPIPE_GUARDED_BY(mutex_);  // offset -> bytes
  std::uint64_t generation_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace edgepipe
