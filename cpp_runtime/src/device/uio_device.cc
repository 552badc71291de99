#include "device/uio_device.h"

#include <utility>

#include "device/shared_turns.h"
#include "device/uio.h"
#include "device/vta_registers.h"

namespace edgepipe {

namespace {

/// The same memory through the interface that the accelerator's driver uses.
template <typename Memory>
Result<std::unique_ptr<DeviceMemory>> as_device_memory(Result<std::unique_ptr<Memory>> memory) {
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<DeviceMemory>(*std::move(memory));
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> open_uio_memory(const UioOptions& options) {
  // An existing buffer that cannot be opened is an error, not a reason to try another source.
  if (!UdmabufMemory::present(options.memory)) {
    if (ZoclMemory::present(options.zocl)) return as_device_memory(ZoclMemory::open(options.zocl));
    if (DmaHeapMemory::present(options.heap)) {
      return as_device_memory(DmaHeapMemory::open(options.heap));
    }
  }
  return as_device_memory(UdmabufMemory::open(options.memory));
}

bool uio_device_present(const UioOptions& options) {
  const Status found =
      find_uio(options.registers, options.classes, options.devices, options.index).status();
  return found.ok() || found.code() == Code::kOutOfMemory;  // opening it then says why it cannot
}

bool uio_device_is_emulated(const UioOptions& options) {
  return find_uio(options.reset, options.classes, options.devices, options.index).ok();
}

Result<std::unique_ptr<HardwareDevice>> open_uio_device(const Accelerator& accelerator,
                                                        DeviceMemory& memory,
                                                        const UioOptions& options) {
  HardwareDevice::Parts parts;
  parts.memory = &memory;
  Result<UioInfo> info =
      find_uio(options.registers, options.classes, options.devices, options.index);
  if (!info.ok()) return info.status();
  const Use use = options.shared ? Use::kShared : Use::kAlone;
  Result<std::unique_ptr<UioRegisters>> registers = UioRegisters::open(*info, vta::kBytes, use);
  if (!registers.ok()) return registers.status();
  parts.registers = *std::move(registers);
  if (options.interrupt) {
    Result<std::unique_ptr<UioInterrupt>> interrupt = UioInterrupt::open(*info);
    if (!interrupt.ok()) return interrupt.status();
    parts.interrupt = *std::move(interrupt);
  }
  Result<UioInfo> reset_info =
      find_uio(options.reset, options.classes, options.devices, options.index);
  if (reset_info.status().code() == Code::kOutOfMemory) return reset_info.status();
  if (reset_info.ok()) {
    Result<std::unique_ptr<UioReset>> reset = UioReset::open(*reset_info, use);
    if (!reset.ok()) return reset.status();
    parts.reset = *std::move(reset);
  }
  if (options.shared) {
    Result<std::unique_ptr<SharedTurns>> turns =
        SharedTurns::open(info->path, {.priority = options.priority, .folder = options.pages});
    if (!turns.ok()) return turns.status();
    parts.sharing = *std::move(turns);
  }
  return HardwareDevice::create(accelerator, std::move(parts), options.driver);
}

}  // namespace edgepipe
