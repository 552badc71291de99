#include "edgepipe/uio_device.h"

#include <utility>

#include "edgepipe/vta_registers.h"
#include "uio.h"

namespace edgepipe {

namespace {

Result<std::unique_ptr<DeviceMemory>> open_memory(const UioOptions& options) {
  Result<std::unique_ptr<UdmabufMemory>> udmabuf = UdmabufMemory::open(options.memory);
  if (udmabuf.ok()) return std::unique_ptr<DeviceMemory>(*std::move(udmabuf));
  // A buffer that is there and cannot be opened is an error, not a reason to take another.
  if (udmabuf.status().code() != Code::kNotFound || !ZoclMemory::present(options.zocl)) {
    return udmabuf.status();
  }
  Result<std::unique_ptr<ZoclMemory>> zocl = ZoclMemory::open(options.zocl);
  if (!zocl.ok()) return zocl.status();
  return std::unique_ptr<DeviceMemory>(*std::move(zocl));
}

}  // namespace

bool uio_device_present(const UioOptions& options) {
  return find_uio(options.registers, options.classes, options.devices).ok();
}

Result<std::unique_ptr<HardwareDevice>> open_uio_device(const Accelerator& accelerator,
                                                        const UioOptions& options) {
  HardwareDevice::Parts parts;
  Result<UioInfo> info = find_uio(options.registers, options.classes, options.devices);
  if (!info.ok()) return info.status();
  Result<std::unique_ptr<UioRegisters>> registers = UioRegisters::open(*info, vta::kBytes);
  if (!registers.ok()) return registers.status();
  parts.registers = *std::move(registers);
  if (options.interrupt) {
    Result<std::unique_ptr<UioInterrupt>> interrupt = UioInterrupt::open(*info);
    if (!interrupt.ok()) return interrupt.status();
    parts.interrupt = *std::move(interrupt);
  }
  if (Result<UioInfo> reset_info = find_uio(options.reset, options.classes, options.devices);
      reset_info.ok()) {
    Result<std::unique_ptr<UioReset>> reset = UioReset::open(*reset_info);
    if (!reset.ok()) return reset.status();
    parts.reset = *std::move(reset);
  }
  Result<std::unique_ptr<DeviceMemory>> memory = open_memory(options);
  if (!memory.ok()) return memory.status();
  parts.memory = *std::move(memory);
  return HardwareDevice::create(accelerator, std::move(parts), options.driver);
}

}  // namespace edgepipe
