// RtlCore: edgepipe's own hardware, compiled by Verilator to a library (vta_rtl/verilated).
//
//   Result<std::unique_ptr<RtlCore>> core = RtlCore::open("libvta_rtl.so", memory, 0);
//   (*core)->write(vta::kFetchCount, 812);
//   while (!(*core)->run(10'000)) {}
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/loaded_library.h"
#include "edgepipe/status.h"

namespace edgepipe {

class RtlCore {
 public:
  /// The accelerator after reset, with physical memory from address `first` on, which is borrowed.
  /// kNotFound if the library cannot be loaded, kUnsupported if it is not one of vta_rtl.
  static Result<std::unique_ptr<RtlCore>> open(const std::string& path, std::span<std::byte> memory,
                                               std::uint64_t first);
  ~RtlCore();
  RtlCore(const RtlCore&) = delete;
  RtlCore& operator=(const RtlCore&) = delete;

  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const;
  void write(std::uint32_t offset, std::uint32_t value);

  /// Runs for so many cycles, or until the interrupt changes. Returns whether it is high.
  bool run(std::uint32_t cycles);

  void reset();

 private:
  struct Functions {
    void* (*open)(std::byte* memory, std::uint64_t first, std::size_t bytes) = nullptr;
    void (*close)(void* core) = nullptr;
    std::uint32_t (*read)(void* core, std::uint32_t offset) = nullptr;
    void (*write)(void* core, std::uint32_t offset, std::uint32_t value) = nullptr;
    int (*run)(void* core, std::uint32_t cycles) = nullptr;
  };

  RtlCore(LoadedLibrary library, const Functions& functions, std::span<std::byte> memory,
          std::uint64_t first);

  const LoadedLibrary library_;
  const Functions functions_;
  const std::span<std::byte> memory_;
  const std::uint64_t first_;
  void* core_;
};

}  // namespace edgepipe
