// ForeignDriver: a shared library with the C functions of the upstream header vta/driver.h.
//
//   Result<ForeignDriver> driver = ForeignDriver::open("/opt/vta/libvta.so");
//   void* memory = driver->functions().mem_alloc(4096, ForeignDriver::kCached);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/loaded_library.h"
#include "edgepipe/status.h"

namespace edgepipe {

class ForeignDriver {
 public:
  // As declared in vta/driver.h (tvm-vta, 2019 to 2023), for builds without USE_VTA64.
  using Handle = void*;                   // VTADeviceHandle
  using PhysicalAddress = std::uint32_t;  // vta_phy_addr_t
  static constexpr int kCached = 1;       // VTA_CACHED

  struct Functions {
    void* (*mem_alloc)(std::size_t bytes, int cached) = nullptr;
    void (*mem_free)(void* memory) = nullptr;
    PhysicalAddress (*mem_get_phy_addr)(void* memory) = nullptr;
    void (*mem_copy_from_host)(void* memory, const void* source, std::size_t bytes) = nullptr;
    void (*mem_copy_to_host)(void* target, const void* memory, std::size_t bytes) = nullptr;
    void (*flush_cache)(void* memory, PhysicalAddress address, int bytes) = nullptr;
    void (*invalidate_cache)(void* memory, PhysicalAddress address, int bytes) = nullptr;
    Handle (*device_alloc)() = nullptr;
    void (*device_free)(Handle device) = nullptr;
    int (*device_run)(Handle device, PhysicalAddress instructions, std::uint32_t count,
                      std::uint32_t wait_cycles) = nullptr;
  };

  /// Loads the library and finds its functions. kNotFound if it cannot be loaded, kUnsupported
  /// with the names of all missing functions. May block; runs the library's initialisers.
  static Result<ForeignDriver> open(const std::filesystem::path& path);

  [[nodiscard]] const Functions& functions() const { return functions_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  ForeignDriver() = default;

  LoadedLibrary library_;
  Functions functions_;
  std::string path_;
};

}  // namespace edgepipe
