// ZoclMemory: memory from zocl, the DRM driver of XRT, which PYNQ images contain since v2.7.
//
//   Result<std::unique_ptr<ZoclMemory>> memory = ZoclMemory::open({});
//
// One cached buffer object in CMA; the driver returns its physical address (INFO_BO). flush and
// invalidate are one system call each (SYNC_BO).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "memory/arena_memory.h"
#include "memory/driver_call.h"

namespace edgepipe {

class ZoclMemory final : public ArenaMemory {
 public:
  struct Options {
    std::size_t bytes = std::size_t{64}
                        << 20;  // halved, down to least_bytes, until CMA can allocate it
    std::size_t least_bytes = std::size_t{4} << 20;
    bool coherent = false;  // the boot code has made the accelerator's port coherent
    std::string devices = "/dev";
    std::string classes = "/sys/class";
    DriverCall ioctl = call_driver;
  };

  /// True if this machine has a device of that driver. Does not open it.
  [[nodiscard]] static bool present(const Options& options);

  /// kNotFound if there is no such device or it cannot be opened, kOutOfMemory if CMA cannot
  /// allocate even least_bytes in one block, kDevice if the driver refuses for another reason.
  static Result<std::unique_ptr<ZoclMemory>> open(const Options& options);

 private:
  ZoclMemory(SharedMapping mapping, std::uint64_t address, FileDescriptor file,
             std::uint32_t handle, const Options& options);
  Status sync(std::size_t offset, std::size_t bytes, Direction direction) override;

  const FileDescriptor file_;  // closing it frees the buffer object
  const std::uint32_t handle_;
  const bool coherent_;
  const DriverCall ioctl_;
};

}  // namespace edgepipe
