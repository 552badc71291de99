#include "memory/non_coherent_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace edgepipe {

class NonCoherentMemory::DeviceSide final : public DeviceMemory {
 public:
  DeviceSide(const HostMemory& cpu, std::byte* arena, const HostMemory::Options& options)
      : cpu_(cpu), arena_(arena), options_(options) {}
  ~DeviceSide() override { munmap(arena_, options_.arena_bytes); }

  Result<Buffer> allocate(std::size_t) override {
    return Status(Code::kUnsupported, "device memory: the accelerator does not allocate");
  }
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override {
    Result<std::byte*> valid = cpu_.translate(address, bytes);
    if (!valid.ok()) return valid;
    return copy_of(address);
  }
  [[nodiscard]] std::uint64_t generation() const override { return cpu_.generation(); }
  void flush(const BufferView&) override {}
  void invalidate(const BufferView&) override {}

  [[nodiscard]] std::byte* copy_of(std::uint64_t address) const {
    return arena_ + (address - options_.base_address);
  }

 private:
  void release(const BufferView&) noexcept override {}

  const HostMemory& cpu_;
  std::byte* const arena_;
  const HostMemory::Options options_;
};

Result<std::unique_ptr<NonCoherentMemory>> NonCoherentMemory::create(
    const HostMemory::Options& options) {
  Result<std::unique_ptr<HostMemory>> cpu = HostMemory::create(options);
  if (!cpu.ok()) return cpu.status();
  void* const arena = mmap(nullptr, options.arena_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) {
    return Status(Code::kOutOfMemory, "device memory: cannot reserve " +
                                          std::to_string(options.arena_bytes) + " bytes");
  }
  auto device_side = std::make_unique<DeviceSide>(**cpu, static_cast<std::byte*>(arena), options);
  return std::unique_ptr<NonCoherentMemory>(
      new NonCoherentMemory(*std::move(cpu), std::move(device_side)));
}

NonCoherentMemory::NonCoherentMemory(std::unique_ptr<HostMemory> cpu,
                                     std::unique_ptr<DeviceSide> device_side)
    : cpu_(std::move(cpu)), device_side_(std::move(device_side)) {}

NonCoherentMemory::~NonCoherentMemory() = default;

DeviceMemory& NonCoherentMemory::device_side() { return *device_side_; }

Result<Buffer> NonCoherentMemory::allocate(std::size_t bytes) {
  Result<Buffer> buffer = cpu_->allocate(bytes);
  // The accelerator's copy must be zeroed too.
  if (buffer.ok()) flush(buffer->view());
  return buffer;
}

Result<std::byte*> NonCoherentMemory::translate(std::uint64_t address, std::size_t bytes) const {
  return cpu_->translate(address, bytes);
}

std::uint64_t NonCoherentMemory::generation() const { return cpu_->generation(); }

void NonCoherentMemory::flush(const BufferView& view) {
  std::memcpy(device_side_->copy_of(view.device_address), view.data, view.bytes);
}

void NonCoherentMemory::invalidate(const BufferView& view) {
  std::memcpy(view.data, device_side_->copy_of(view.device_address), view.bytes);
}

// Never called, because the buffers belong to `cpu_`.
void NonCoherentMemory::release(const BufferView& /*view*/) noexcept {}

}  // namespace edgepipe
