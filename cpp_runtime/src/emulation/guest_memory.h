// GuestMemory: a machine's whole memory by physical address, as seen by bus masters.
//
// The FPGA model's view of the virtual board: QEMU keeps the guest's DDR in a shared file. Memory
// is allocated by the guest's driver, not by this class.
#pragma once

#include <span>

#include "base/shared_mapping.h"
#include "edgepipe/memory.h"

namespace edgepipe {

class GuestMemory final : public DeviceMemory {
 public:
  /// Takes ownership of a mapping whose first byte has the physical address `base_address`.
  explicit GuestMemory(SharedMapping mapping, std::uint64_t base_address = 0)
      : mapping_(std::move(mapping)), base_address_(base_address) {}

  /// Always kUnsupported.
  Result<Buffer> allocate(std::size_t bytes) override;

  /// kDevice for a range that is not completely inside memory.
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;

  [[nodiscard]] std::span<std::byte> bytes() const { return mapping_.bytes(); }
  [[nodiscard]] std::uint64_t base_address() const { return base_address_; }
  [[nodiscard]] std::uint64_t generation() const override { return 0; }
  void flush(const BufferView&) override {}
  void invalidate(const BufferView&) override {}

 private:
  void release(const BufferView&) noexcept override {}

  const SharedMapping mapping_;
  const std::uint64_t base_address_;
};

}  // namespace edgepipe
