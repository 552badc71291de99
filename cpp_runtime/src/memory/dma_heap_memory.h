// DmaHeapMemory: memory from a dma-heap of the kernel that hands out contiguous memory (CMA).
//
//   Result<std::unique_ptr<DmaHeapMemory>> memory = DmaHeapMemory::open({});
//
// Needs no kernel module beyond the kernel's own, but the kernel names physical addresses only in
// /proc/self/pagemap, and there only to a process that has CAP_SYS_ADMIN, as root has. The heap's
// own DMA_BUF_IOCTL_SYNC maintains caches for devices that a kernel driver has attached, of which a
// UIO device is none; so flush and invalidate use the processor's instructions, which AArch64 has
// for user programs. Other processors need a coherent port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "memory/arena_memory.h"
#include "memory/driver_call.h"

namespace edgepipe {

class DmaHeapMemory final : public ArenaMemory {
 public:
  /// Reads words of /proc/self/pagemap, from that of page number `first` on; returns how many.
  using ReadPagemap =
      std::function<std::size_t(std::uint64_t first, std::span<std::uint64_t> words)>;

  struct Options {
    std::string heap;  // such as "linux,cma"; empty: the first that is contiguous by its name
    std::size_t bytes = std::size_t{64} << 20;  // halved, down to least_bytes, while CMA lacks them
    std::size_t least_bytes = std::size_t{4} << 20;
    bool coherent = false;  // the board's boot code has made the accelerator's port coherent
    std::string devices = "/dev";
    DriverCall ioctl = call_driver;  // tests put the driver here
    ReadPagemap read_pagemap = read_own_pagemap;
  };

  /// True when this machine has such a heap. Does not open it.
  [[nodiscard]] static bool present(const Options& options);

  /// kNotFound when there is no such heap or it cannot be opened, kOutOfMemory when CMA has not
  /// even least_bytes in one piece, kDevice when the kernel names no addresses to this process, the
  /// processor cannot maintain caches or the memory is not contiguous.
  static Result<std::unique_ptr<DmaHeapMemory>> open(const Options& options);

  /// The kernel's pagemap of this process; none can be read without the right to.
  static std::size_t read_own_pagemap(std::uint64_t first, std::span<std::uint64_t> words);

 private:
  DmaHeapMemory(SharedMapping mapping, std::uint64_t address, bool coherent);
  void sync(std::size_t offset, std::size_t bytes, Direction direction) override;

  const bool coherent_;
};

}  // namespace edgepipe
