// A third-party driver: the functions of vta/driver.h around a simulator.
//
// EDGEPIPE_TEST_ACCELERATOR describes the accelerator in JSON; the interface itself does not. With
// EDGEPIPE_TEST_BROKEN set, no run succeeds; with EDGEPIPE_TEST_STARVED, a run runs out of memory.
// With EDGEPIPE_TEST_GATE, a run first waits until a file of that name exists. The CPU cannot
// access its memory without copying: VTAMemAlloc returns physical addresses.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "simulator/simulator.h"

namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 28;

struct Driver {
  std::mutex mutex;
  std::unique_ptr<edgepipe::HostMemory> memory =
      *edgepipe::HostMemory::create({.arena_bytes = kArenaBytes});
  std::map<std::uintptr_t, edgepipe::Buffer> buffers;

  std::byte* translate(const void* handle, std::size_t bytes) {
    return *memory->translate(reinterpret_cast<std::uintptr_t>(handle), bytes);
  }
};

Driver& driver() {
  static Driver instance;
  return instance;
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT void* VTAMemAlloc(std::size_t bytes, int /*cached*/) {
  auto buffer = driver().memory->allocate(bytes);
  if (!buffer.ok()) return nullptr;
  const auto address = static_cast<std::uintptr_t>(buffer->device_address());
  const std::lock_guard lock(driver().mutex);
  driver().buffers.emplace(address, *std::move(buffer));
  return reinterpret_cast<void*>(address);
}

EXPORT void VTAMemFree(void* handle) {
  const std::lock_guard lock(driver().mutex);
  driver().buffers.erase(reinterpret_cast<std::uintptr_t>(handle));
}

EXPORT std::uint32_t VTAMemGetPhyAddr(void* handle) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle));
}

EXPORT void VTAMemCopyFromHost(void* handle, const void* source, std::size_t bytes) {
  std::memcpy(driver().translate(handle, bytes), source, bytes);
}

EXPORT void VTAMemCopyToHost(void* target, const void* handle, std::size_t bytes) {
  std::memcpy(target, driver().translate(handle, bytes), bytes);
}

EXPORT void VTAFlushCache(void* /*handle*/, std::uint32_t /*address*/, int /*bytes*/) {}
EXPORT void VTAInvalidateCache(void* /*handle*/, std::uint32_t /*address*/, int /*bytes*/) {}

EXPORT void* VTADeviceAlloc() {
  const char* json = std::getenv("EDGEPIPE_TEST_ACCELERATOR");
  if (json == nullptr) return nullptr;
  auto accelerator = edgepipe::parse_accelerator(json);
  if (!accelerator.ok()) return nullptr;
  auto simulator = edgepipe::Simulator::create(*accelerator, *driver().memory);
  return simulator.ok() ? simulator->release() : nullptr;
}

EXPORT void VTADeviceFree(void* handle) { delete static_cast<edgepipe::Simulator*>(handle); }

EXPORT int VTADeviceRun(void* handle, std::uint32_t address, std::uint32_t count,
                        std::uint32_t /*wait_cycles*/) {
  if (std::getenv("EDGEPIPE_TEST_BROKEN") != nullptr) return 1;
  if (std::getenv("EDGEPIPE_TEST_STARVED") != nullptr) throw std::bad_alloc();
  if (const char* gate = std::getenv("EDGEPIPE_TEST_GATE"); gate != nullptr) {
    const std::string file = gate;  // the test changes the environment meanwhile
    while (!std::filesystem::exists(file)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const auto status =
      static_cast<edgepipe::Simulator*>(handle)->run({.address = address, .count = count});
  return status.ok() ? 0 : 1;
}

}  // extern "C"
