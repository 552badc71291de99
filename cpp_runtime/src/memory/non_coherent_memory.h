// NonCoherentMemory: memory with separate copies for CPU and accelerator until caches are
// maintained.
//
//   Result<std::unique_ptr<NonCoherentMemory>> memory = NonCoherentMemory::create({});
//   auto simulator = Simulator::create(accelerator, (*memory)->device_side());
//
// flush copies its range to the accelerator's copy and invalidate copies it back; nothing else
// does. A stage that omits one of them, or passes too short a range, always computes with stale
// bytes here. With a real cache it would work most of the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "edgepipe/memory.h"

namespace edgepipe {

class NonCoherentMemory final : public DeviceMemory {
 public:
  /// kOutOfMemory if the two arenas cannot be reserved.
  static Result<std::unique_ptr<NonCoherentMemory>> create(const HostMemory::Options& options);
  ~NonCoherentMemory() override;

  /// The accelerator's view: translate returns its copy, allocate is kUnsupported.
  [[nodiscard]] DeviceMemory& device_side();

  Result<Buffer> allocate(std::size_t bytes) override;
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;
  [[nodiscard]] std::uint64_t generation() const override;
  void flush(const BufferView& view) override;
  void invalidate(const BufferView& view) override;

 private:
  class DeviceSide;

  NonCoherentMemory(std::unique_ptr<HostMemory> cpu, std::unique_ptr<DeviceSide> device_side);
  void release(const BufferView& view) noexcept override;

  const std::unique_ptr<HostMemory> cpu_;
  const std::unique_ptr<DeviceSide> device_side_;
};

}  // namespace edgepipe
