// OwnMemory: your own device memory: a plain array, handed out in pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "edgepipe/memory.h"

class OwnMemory final : public edgepipe::DeviceMemory {
 public:
  OwnMemory();

  edgepipe::Result<edgepipe::Buffer> allocate(std::size_t bytes) override;
  edgepipe::Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override;
  std::uint64_t generation() const override;

  // CPU and accelerator use the same array, so there is nothing to maintain.
  void flush(const edgepipe::BufferView&) override {}
  void invalidate(const edgepipe::BufferView&) override {}

 private:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;
  static constexpr std::uint64_t kBaseAddress = 0x4000'0000;

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  void release(const edgepipe::BufferView& view) noexcept override;

  const std::unique_ptr<std::byte, Free> memory_;
  mutable std::mutex mutex_;                 // any thread may call
  std::map<std::size_t, std::size_t> live_;  // offset -> bytes
  std::uint64_t generation_ = 0;
};
