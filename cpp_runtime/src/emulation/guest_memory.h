// GuestMemory: a machine's whole memory as its bus masters see it, by physical address.
//
// The FPGA model's view of the virtual board: QEMU keeps the guest's DDR in a shared file. Nothing
// is allocated here, the guest's own driver does that.
#pragma once

#include "base/shared_mapping.h"
#include "edgepipe/memory.h"

namespace edgepipe {

class GuestMemory final : public DeviceMemory {
 public:
  /// Takes over a mapping whose first byte has the physical address `base_address`.
  explicit GuestMemory(SharedMapping mapping, std::uint64_t base_address = 0)
      : mapping_(std::move(mapping)), base_address_(base_address) {}

  /// kUnsupported, always.
  Result<Buffer> allocate(std::size_t bytes) override;

  /// kDevice for a range that is not wholly memory.
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;

  [[nodiscard]] std::uint64_t generation() const override { return 0; }
  void flush(const BufferView&) override {}
  void invalidate(const BufferView&) override {}

 private:
  void release(const BufferView&) noexcept override {}

  const SharedMapping mapping_;
  const std::uint64_t base_address_;
};

}  // namespace edgepipe
