// UdmabufMemory: memory from the u-dma-buf kernel driver, with physical addresses.
//
//   Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open({.name = "udmabuf0"});
//
// The CPU sees it cached; flush and invalidate maintain the caches through the driver's sysfs
// files, one system call each. Where the accelerator's port is coherent they do nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "edgepipe/file_descriptor.h"
#include "edgepipe/memory.h"
#include "edgepipe/shared_mapping.h"

namespace edgepipe {

class RangeAllocator;

class UdmabufMemory final : public DeviceMemory {
 public:
  struct Options {
    std::string name = "udmabuf0";
    bool coherent = false;  // the board's boot code has made the accelerator's port coherent
    std::string devices = "/dev";
    std::string classes = "/sys/class";
  };

  /// kNotFound when there is no such buffer, kCorrupt when its attributes cannot be read.
  static Result<std::unique_ptr<UdmabufMemory>> open(const Options& options);
  ~UdmabufMemory() override;

  Result<Buffer> allocate(std::size_t bytes) override;
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;
  [[nodiscard]] std::uint64_t generation() const override;
  void flush(const BufferView& view) override;
  void invalidate(const BufferView& view) override;

 private:
  UdmabufMemory(SharedMapping mapping, std::uint64_t address, FileDescriptor for_device,
                FileDescriptor for_cpu);
  void release(const BufferView& view) noexcept override;
  void sync(const FileDescriptor& file, const BufferView& view, std::uint64_t direction) const;

  const SharedMapping mapping_;
  const std::uint64_t address_;
  const FileDescriptor for_device_;  // neither is valid when the memory is coherent
  const FileDescriptor for_cpu_;
  const std::unique_ptr<RangeAllocator> ranges_;
};

}  // namespace edgepipe
