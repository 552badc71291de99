// A driver without VTADeviceRun and without both cache functions.
#include <cstddef>
#include <cstdint>

#define EXPORT __attribute__((visibility("default")))

extern "C" {
EXPORT void* VTAMemAlloc(std::size_t, int) { return nullptr; }
EXPORT void VTAMemFree(void*) {}
EXPORT std::uint32_t VTAMemGetPhyAddr(void*) { return 0; }
EXPORT void VTAMemCopyFromHost(void*, const void*, std::size_t) {}
EXPORT void VTAMemCopyToHost(void*, const void*, std::size_t) {}
EXPORT void* VTADeviceAlloc() { return nullptr; }
EXPORT void VTADeviceFree(void*) {}
}
