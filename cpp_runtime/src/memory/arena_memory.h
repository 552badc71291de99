// ArenaMemory: device memory in one physically contiguous, mapped buffer, allocated in ranges.
//
// Derived classes supply the buffer of a kernel driver and its cache maintenance: udmabuf_memory.h,
// zocl_memory.h, dma_heap_memory.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/shared_mapping.h"
#include "edgepipe/memory.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class RangeAllocator;

class ArenaMemory : public DeviceMemory {
 public:
  ~ArenaMemory() override;

  Result<Buffer> allocate(std::size_t bytes) final;
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const final;
  [[nodiscard]] std::uint64_t generation() const final;
  void flush(const BufferView& view) final;
  void invalidate(const BufferView& view) final;
  [[nodiscard]] Status maintained() const final;
  void before_reuse(const void* owner, const std::function<Status()>& settled) final
      EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<MemoryRange> extent() const final {
    return MemoryRange{.address = address_, .bytes = mapping_.bytes().size()};
  }
  void keep_released() final { keeps_released_ = true; }

 protected:
  enum class Direction { kToDevice, kFromDevice };

  /// `address` is the physical address of the mapping's first byte.
  ArenaMemory(SharedMapping mapping, std::uint64_t address);

  /// Maintains the caches of a range; does nothing if the accelerator's port is coherent. kDevice
  /// if the kernel refuses.
  virtual Status sync(std::size_t offset, std::size_t bytes, Direction direction) = 0;

  /// Claims a range that no allocation of this object overlaps. Returns 0, or where the range of
  /// another process ends that has some of it. The default is for a buffer of this process alone.
  virtual Result<std::size_t> claim(std::size_t offset, std::size_t bytes);
  virtual void disclaim(std::size_t offset, std::size_t bytes) noexcept;

  [[nodiscard]] std::span<std::byte> mapped() const { return mapping_.bytes(); }

 private:
  void release(const BufferView& view) noexcept final;
  [[nodiscard]] std::size_t offset_of(const BufferView& view) const {
    return static_cast<std::size_t>(view.device_address - address_);
  }

  void maintain(const BufferView& view, Direction direction) EDGEPIPE_EXCLUDES(mutex_);
  Result<std::size_t> reserve(std::size_t bytes);
  Status settle() EDGEPIPE_EXCLUDES(mutex_);

  const SharedMapping mapping_;
  const std::uint64_t address_;
  const std::unique_ptr<RangeAllocator> ranges_;
  std::atomic<bool> keeps_released_{false};
  std::atomic<bool> failed_{false};  // so that only a failure costs a lock
  mutable Mutex mutex_;
  Status failure_ EDGEPIPE_GUARDED_BY(mutex_);                                          // the first
  std::map<const void*, std::function<Status()>> settled_ EDGEPIPE_GUARDED_BY(mutex_);  // by owner
};

}  // namespace edgepipe
