// DeviceMemory: memory that both the CPU and the accelerator can access, allocated as Buffers.
//
//   Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 64 << 20});
//   Result<Buffer> buffer = (*memory)->allocate(4096);
//   BufferView view = buffer->view();   // pointer for the CPU, address for the accelerator
//
// conformance/memory_suite.h tests these promises on any memory.
//
// Thread rules: every function may be called from any thread. allocate and release take a lock and
// may make system calls, so the frame path does not use them. The memory must outlive its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

/// A piece of memory that both the CPU and the accelerator see. Does not own it. A stage's views
/// are valid as long as its pipeline lives and are 64-byte aligned.
struct BufferView {
  std::byte* data = nullptr;         // for the CPU
  std::uint64_t device_address = 0;  // for the accelerator, in bytes
  std::size_t bytes = 0;
};

class DeviceMemory;

/// What a program may do with a range of device memory.
enum class Access : std::uint8_t {
  kConstant,   // read it; its content does not change, so micro-ops may be there
  kRead,       // read it
  kReadWrite,  // read and write it
};

/// [address, address + bytes) of device memory.
struct MemoryRange {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  Access access = Access::kReadWrite;

  bool operator==(const MemoryRange&) const = default;
};

/// Owns one allocation and releases it when destroyed. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DeviceMemory* owner, BufferView view) : owner_(owner), view_(view) {}
  Buffer(Buffer&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), view_(std::exchange(other.view_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(view_, other.view_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] const BufferView& view() const { return view_; }
  [[nodiscard]] std::byte* data() const { return view_.data; }
  [[nodiscard]] std::uint64_t device_address() const { return view_.device_address; }
  [[nodiscard]] std::size_t bytes() const { return view_.bytes; }

 private:
  DeviceMemory* owner_ = nullptr;
  BufferView view_;
};

class DeviceMemory {
 public:
  /// The alignment of every allocation, for the CPU and for the accelerator.
  static constexpr std::size_t kAlignment = 4096;

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  /// Reserves `bytes` (0 counts as 1) of zeroed memory that does not overlap any live allocation.
  /// kOutOfMemory names the requested bytes, and the free ones if the memory
  /// knows them.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;

  /// CPU pointer of [address, address + bytes), which must lie inside one live allocation;
  /// kDevice otherwise. The pointer is borrowed and valid as long as that allocation.
  virtual Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const = 0;

  /// Changes with every allocate and release; address translations may be cached until it changes.
  [[nodiscard]] virtual std::uint64_t generation() const = 0;

  /// Cache maintenance: `flush` before the accelerator reads what the CPU wrote, `invalidate`
  /// before the CPU reads what the accelerator wrote. No effect on coherent memory. Never blocks.
  virtual void flush(const BufferView& view) = 0;
  virtual void invalidate(const BufferView& view) = 0;

  /// kDevice once a flush or invalidate has failed, with the system's reason: the CPU and the
  /// accelerator may since see different bytes. No stage runs on the device after that.
  [[nodiscard]] virtual Status maintained() const { return {}; }

  /// Calls `settled` before it hands out memory that another process may have used, and returns its
  /// errors. One function for each `owner`; an empty one ends that. No effect on memory that only
  /// this process ever uses.
  virtual void before_reuse([[maybe_unused]] const void* owner,
                            [[maybe_unused]] const std::function<Status()>& settled) {}

  /// Where all allocations are, if that is one range: an accelerator may be kept inside it.
  [[nodiscard]] virtual std::optional<MemoryRange> extent() const { return std::nullopt; }

  /// Never reuses what is released from now on: the accelerator cannot be stopped and may write to
  /// it.
  virtual void keep_released() {}

 protected:
  friend class Buffer;
  virtual void release(const BufferView& view) noexcept = 0;
};

inline Buffer::~Buffer() {
  if (owner_ != nullptr) owner_->release(view_);
}

/// Plain memory of this process for the simulator: one reserved arena, first fit. Coherent.
/// Pages use no memory until they are touched.
class HostMemory final : public DeviceMemory {
 public:
  struct Options {
    std::size_t arena_bytes = std::size_t{1} << 30;
    std::uint64_t base_address = 0x1000'0000;  // device address of the arena's first byte
  };

  /// kOutOfMemory if the arena cannot be reserved, kInvalidArgument for a misaligned base.
  static Result<std::unique_ptr<HostMemory>> create(const Options& options);
  ~HostMemory() override;

  Result<Buffer> allocate(std::size_t bytes) override;
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;
  [[nodiscard]] std::uint64_t generation() const override;
  void flush(const BufferView& view) override;
  void invalidate(const BufferView& view) override;
  [[nodiscard]] std::optional<MemoryRange> extent() const override {
    return MemoryRange{.address = options_.base_address, .bytes = options_.arena_bytes};
  }

  /// The whole arena, for a model of a device that has its own view of memory.
  [[nodiscard]] std::span<std::byte> bytes() const { return {arena_, options_.arena_bytes}; }

 private:
  HostMemory(std::byte* arena, const Options& options);
  void release(const BufferView& view) noexcept override;

  std::byte* const arena_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> live_;  // offset -> requested bytes; guarded by mutex_
  std::uint64_t generation_ = 0;             // guarded by mutex_
};

}  // namespace edgepipe
