#include "device/foreign_driver.h"

namespace edgepipe {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  if (!find_function(library, name, function))
    missing += (missing.empty() ? "" : ", ") + std::string(name);
}

}  // namespace

Result<ForeignDriver> ForeignDriver::open(const std::filesystem::path& path) {
  ForeignDriver driver;
  driver.path_ = path.string();
  Result<LoadedLibrary> loaded =
      load_library_file(path, "driver " + path.string() + ": cannot be loaded");
  if (!loaded.ok()) return loaded.status();
  driver.library_ = *std::move(loaded);
  void* const library = driver.library_.get();
  Functions& functions = driver.functions_;
  std::string missing;
  find(library, "VTAMemAlloc", functions.mem_alloc, missing);
  find(library, "VTAMemFree", functions.mem_free, missing);
  find(library, "VTAMemGetPhyAddr", functions.mem_get_phy_addr, missing);
  find(library, "VTAMemCopyFromHost", functions.mem_copy_from_host, missing);
  find(library, "VTAMemCopyToHost", functions.mem_copy_to_host, missing);
  find(library, "VTAFlushCache", functions.flush_cache, missing);
  find(library, "VTAInvalidateCache", functions.invalidate_cache, missing);
  find(library, "VTADeviceAlloc", functions.device_alloc, missing);
  find(library, "VTADeviceFree", functions.device_free, missing);
  find(library, "VTADeviceRun", functions.device_run, missing);
  if (!missing.empty()) {
    return Status(Code::kUnsupported, "driver " + path.string() + ": missing functions: " +
                                          missing + ", expected all functions of vta/driver.h");
  }
  return driver;
}

}  // namespace edgepipe
