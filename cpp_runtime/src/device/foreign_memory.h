// ForeignMemory: memory from a foreign driver, with a copy for the CPU.
//
// vta/driver.h does not guarantee that the CPU may use its memory directly; it only has functions
// that copy in and out. The CPU therefore uses memory of this process; flush copies to the driver's
// memory, invalidate copies from it. Memory that is released while the accelerator may write to it
// stays reserved until the accelerator has stopped.
#pragma once

#include <cstdint>
#include <map>

#include "device/foreign_driver.h"
#include "edgepipe/memory.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ForeignMemory final : public DeviceMemory {
 public:
  /// `driver` is borrowed and must outlive the memory.
  explicit ForeignMemory(const ForeignDriver& driver) : driver_(driver) {}
  ~ForeignMemory() override;

  /// kOutOfMemory if the driver has no memory, kUnsupported if its memory is misaligned.
  Result<Buffer> allocate(std::size_t bytes) override;
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;
  [[nodiscard]] std::uint64_t generation() const override;
  void flush(const BufferView& view) override;
  void invalidate(const BufferView& view) override;

  /// From now on the accelerator may write to any block: released ones are kept.
  void begin_run();

  /// The accelerator has stopped: returns the blocks that were released meanwhile to the driver.
  void end_run();

 private:
  struct Block {
    std::byte* driver_memory = nullptr;  // accessed only by the driver's functions
    std::byte* copy = nullptr;
    std::size_t bytes = 0;
    bool released = false;  // during a run
  };
  using Blocks = std::map<std::uint64_t, Block>;  // by the address of the first byte

  void release(const BufferView& view) noexcept override;
  [[nodiscard]] Blocks::const_iterator find(std::uint64_t address, std::size_t bytes) const
      EDGEPIPE_REQUIRES(mutex_);
  /// Where the driver has the bytes of `view`; null if they are not inside one allocation.
  [[nodiscard]] std::byte* driver_side(const BufferView& view) const EDGEPIPE_REQUIRES(mutex_);
  void give_back(const Block& block) EDGEPIPE_REQUIRES(mutex_);

  const ForeignDriver& driver_;
  mutable Mutex mutex_;  // also guards the driver's functions, which may not be thread-safe
  Blocks blocks_ EDGEPIPE_GUARDED_BY(mutex_);
  std::uint64_t generation_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
  bool running_ EDGEPIPE_GUARDED_BY(mutex_) = false;
};

}  // namespace edgepipe
