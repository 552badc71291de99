// AcceleratorView: device memory as the accelerator sees it, for tests of cache maintenance.
//
//   DeviceView view(device);
//   std::array<std::byte, 64> seen;
//   Status status = view.read(buffer.device_address(), seen);
//
// The CPU's own pointer does not show what the accelerator sees: there may be caches or a copy in
// between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe::conformance {

class AcceleratorView {
 public:
  AcceleratorView() = default;
  AcceleratorView(const AcceleratorView&) = delete;
  AcceleratorView& operator=(const AcceleratorView&) = delete;
  virtual ~AcceleratorView() = default;

  /// Copies what the accelerator sees at `address`, which is inside a live allocation. Address and
  /// size are multiples of 64.
  virtual Status read(std::uint64_t address, std::span<std::byte> to) = 0;

  /// Writes `from` to `address` as the accelerator would. The same limits as for read().
  virtual Status write(std::uint64_t address, std::span<const std::byte> from) = 0;
};

/// Uses another DeviceMemory whose `translate` gives what the accelerator sees, as for a simulator.
class TranslatedView final : public AcceleratorView {
 public:
  /// `accelerators_side` is borrowed.
  explicit TranslatedView(DeviceMemory& accelerators_side) : memory_(accelerators_side) {}

  Status read(std::uint64_t address, std::span<std::byte> to) override;
  Status write(std::uint64_t address, std::span<const std::byte> from) override;

 private:
  DeviceMemory& memory_;
};

/// Lets the accelerator itself copy, with small programs. The buffers are in the device's memory.
class DeviceView final : public AcceleratorView {
 public:
  /// `device` is borrowed; its accelerator has square blocks (block_in = block_out), and a tile of
  /// at most 64 bytes. kOutOfMemory if its memory has no room.
  static Result<std::unique_ptr<DeviceView>> create(Device& device);

  Status read(std::uint64_t address, std::span<std::byte> to) override;
  Status write(std::uint64_t address, std::span<const std::byte> from) override;

 private:
  DeviceView(Device& device, Buffer constants, Buffer program, Buffer staging);
  Status copy(std::uint64_t from, std::uint64_t to, std::size_t bytes);

  Device& device_;
  Buffer constants_;  // a micro-op, and weights that change nothing
  Buffer program_;
  Buffer staging_;
};

}  // namespace edgepipe::conformance
