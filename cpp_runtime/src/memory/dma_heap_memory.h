// DmaHeapMemory: memory from a contiguous (CMA) dma-heap of the kernel.
//
//   Result<std::unique_ptr<DmaHeapMemory>> memory = DmaHeapMemory::open({});
//
// Needs no additional kernel module. However, the kernel shows physical addresses only in
// /proc/self/pagemap, and only to a process with CAP_SYS_ADMIN, such as root. The heap's
// DMA_BUF_IOCTL_SYNC maintains caches only for devices that a kernel driver has attached, and UIO
// attaches none. flush and invalidate therefore use processor instructions, which AArch64 allows in
// user programs. Other processors need a coherent port.
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
  /// Reads words of /proc/self/pagemap, starting with page number `first`; returns how many.
  using ReadPagemap =
      std::function<std::size_t(std::uint64_t first, std::span<std::uint64_t> words)>;

  struct Options {
    std::string heap;  // such as "linux,cma"; empty: the first contiguous heap by name
    std::size_t bytes = std::size_t{64}
                        << 20;  // halved, down to least_bytes, until CMA can allocate it
    std::size_t least_bytes = std::size_t{4} << 20;
    bool coherent = false;  // the boot code has made the accelerator's port coherent
    std::string devices = "/dev";
    DriverCall ioctl = call_driver;  // replaced in tests
    ReadPagemap read_pagemap = read_own_pagemap;
  };

  /// True if this machine has such a heap. Does not open it.
  [[nodiscard]] static bool present(const Options& options);

  /// kNotFound if there is no such heap or it cannot be opened, kOutOfMemory if CMA cannot allocate
  /// even least_bytes in one block, kDevice if the kernel hides addresses from this process, the
  /// processor cannot maintain caches or the memory is not contiguous.
  static Result<std::unique_ptr<DmaHeapMemory>> open(const Options& options);

  /// The kernel's pagemap of this process; returns 0 words without permission.
  static std::size_t read_own_pagemap(std::uint64_t first, std::span<std::uint64_t> words);

 private:
  DmaHeapMemory(SharedMapping mapping, std::uint64_t address, bool coherent);
  Status sync(std::size_t offset, std::size_t bytes, Direction direction) override;

  const bool coherent_;
};

}  // namespace edgepipe
