// UdmabufMemory: memory from the u-dma-buf kernel driver, with physical addresses.
//
//   Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open({.name = "udmabuf0"});
//
// CPU accesses are cached; flush and invalidate maintain the caches through the driver's sysfs
// files, with one system call each. If the accelerator's port is coherent, they do nothing.
//
// Several processes can use one buffer: each allocation is also a lock of the kernel on the same
// bytes of the buffer's file (range_lock.h), which ends with the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "memory/arena_memory.h"

namespace edgepipe {

class UdmabufMemory final : public ArenaMemory {
 public:
  struct Options {
    std::string name = "udmabuf0";
    bool coherent = false;  // the boot code has made the accelerator's port coherent
    std::string devices = "/dev";
    std::string classes = "/sys/class";
  };

  /// True if this machine has that buffer. Does not open it.
  [[nodiscard]] static bool present(const Options& options);

  /// kNotFound if there is no such buffer, kCorrupt if its attributes cannot be read.
  static Result<std::unique_ptr<UdmabufMemory>> open(const Options& options);

 private:
  UdmabufMemory(SharedMapping mapping, std::uint64_t address, FileDescriptor file,
                FileDescriptor for_device, FileDescriptor for_cpu);
  Result<std::size_t> claim(std::size_t offset, std::size_t bytes) override;
  void disclaim(std::size_t offset, std::size_t bytes) noexcept override;
  Status sync(std::size_t offset, std::size_t bytes, Direction direction) override;

  const FileDescriptor file_;        // has the locks
  const FileDescriptor for_device_;  // both invalid if the memory is coherent
  const FileDescriptor for_cpu_;
};

}  // namespace edgepipe
