// RecordingMemory: wraps a memory and counts, omits or shortens its cache maintenance.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "edgepipe/memory.h"

namespace edgepipe::testing {

class RecordingMemory final : public DeviceMemory {
 public:
  explicit RecordingMemory(DeviceMemory& inner) : inner_(inner) {}

  std::size_t allocations = 0;
  std::size_t flushes = 0;
  std::size_t invalidates = 0;
  std::size_t fail_after = SIZE_MAX;  // allocations that succeed before one fails

  /// Limits the call with this number, counted over both kinds, to this many bytes.
  struct Cut {
    std::size_t call;
    std::function<std::size_t(std::size_t bytes)> bytes;
  };
  std::optional<Cut> cut;

  Status failure;  // of cache maintenance
  [[nodiscard]] Status maintained() const override { return failure; }

  Result<Buffer> allocate(std::size_t bytes) override {
    if (allocations == fail_after) return Status(Code::kOutOfMemory, "injected allocation failure");
    ++allocations;
    return inner_.allocate(bytes);
  }
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override {
    return inner_.translate(address, bytes);
  }
  [[nodiscard]] std::uint64_t generation() const override { return inner_.generation(); }
  void flush(const BufferView& view) override {
    inner_.flush(after_cut(view));
    ++flushes;
  }
  void invalidate(const BufferView& view) override {
    inner_.invalidate(after_cut(view));
    ++invalidates;
  }

 private:
  [[nodiscard]] BufferView after_cut(BufferView view) const {
    if (cut && cut->call == flushes + invalidates) view.bytes = cut->bytes(view.bytes);
    return view;
  }
  void release(const BufferView&) noexcept override {}  // the buffers belong to the inner memory

  DeviceMemory& inner_;
};

}  // namespace edgepipe::testing
