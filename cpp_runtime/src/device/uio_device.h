// The accelerator on a board: registers, interrupt and reset through UIO, memory through u-dma-buf,
// zocl or a dma-heap.
//
//   auto memory = open_uio_memory({});
//   auto device = open_uio_device(accelerator, **memory, {.index = 0});
//
// UIO devices are found by name (the device tree's node name), never by address or number: the
// registers are where the bitstream or the virtual board put them. board/ has a device-tree overlay
// and the udev rules that let a user open them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/hardware_device.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "memory/dma_heap_memory.h"
#include "memory/udmabuf_memory.h"
#include "memory/zocl_memory.h"

namespace edgepipe {

struct UioOptions {
  std::string registers = "vta";    // the UIO device with the four register blocks
  std::string reset = "vta-reset";  // the UIO device of the virtual board's reset; may be missing
  std::size_t index = 0;            // which of several with these names, by UIO number
  bool interrupt = true;            // wait for the interrupt if the UIO device has one
  UdmabufMemory::Options memory = {};  // used if this board has it
  ZoclMemory::Options zocl = {};       // else; a PYNQ image has it
  DmaHeapMemory::Options heap = {};    // else, if the kernel has a contiguous one
  HardwareDevice::Options driver = {};
  std::string devices = "/dev";
  std::string classes = "/sys/class";
};

/// True when this machine has the UIO device of the registers. Does not open it.
[[nodiscard]] bool uio_device_present(const UioOptions& options);

/// Opens this board's memory: u-dma-buf, zocl where there is none, or a dma-heap. Errors are
/// theirs.
Result<std::unique_ptr<DeviceMemory>> open_uio_memory(const UioOptions& options);

/// Opens the accelerator. kNotFound names the device that is missing and those that are there.
/// kDevice when another process has it: registers have one user at a time. `memory` is borrowed.
Result<std::unique_ptr<HardwareDevice>> open_uio_device(const Accelerator& accelerator,
                                                        DeviceMemory& memory,
                                                        const UioOptions& options);

}  // namespace edgepipe
