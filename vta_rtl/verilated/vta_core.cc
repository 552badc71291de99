// The Verilated accelerator alone, on memory that its caller owns: for edgepipe-fpga-model, in
// which a driver sets the registers (cpp_runtime/src/emulation/rtl_core.h). One caller at a time.
#include <cstddef>
#include <cstdint>
#include <new>

#include "axi_memory.h"
#include "core_model.h"

namespace {

constexpr vta_rtl::MemoryCosts kCosts = {VTA_RTL_DEFAULT_MEMORY_COSTS};

vta_rtl::CoreModel& core_of(void* handle) { return *static_cast<vta_rtl::CoreModel*>(handle); }

}  // namespace

extern "C" {

/// Returns an accelerator after reset, or null. `memory` is what it may access: `bytes` from the
/// physical address `first` on.
void* VtaRtlCoreOpen(std::byte* memory, std::uint64_t first, std::size_t bytes) {
  return new (std::nothrow) vta_rtl::CoreModel({first, {memory, bytes}}, kCosts);
}

void VtaRtlCoreClose(void* handle) { delete &core_of(handle); }

/// Reads or writes a register, which takes a few cycles.
std::uint32_t VtaRtlCoreRead(void* handle, std::uint32_t offset) {
  return core_of(handle).read(offset);
}

void VtaRtlCoreWrite(void* handle, std::uint32_t offset, std::uint32_t value) {
  core_of(handle).write(offset, value);
}

/// Runs for so many cycles, or until the interrupt changes. Returns the interrupt: 0 or 1.
int VtaRtlCoreRun(void* handle, std::uint32_t cycles) {
  vta_rtl::CoreModel& core = core_of(handle);
  const bool before = core.interrupted();
  for (; cycles > 0 && core.interrupted() == before; --cycles) core.cycle();
  return core.interrupted() ? 1 : 0;
}

}  // extern "C"
