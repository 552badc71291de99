// The accelerator on a board: registers, interrupt and reset through UIO, memory through u-dma-buf,
// zocl or a dma-heap.
//
//   auto memory = open_uio_memory({});
//   auto device = open_uio_device(accelerator, **memory, {.index = 0});
//
// UIO devices are found by name (the name of the device-tree node), never by address or number,
// because the bitstream or the virtual board determines the address of the registers. board/ has a
// device-tree overlay and udev rules that let users open the devices.
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
  std::size_t index = 0;            // which of several devices with these names, by UIO number
  bool interrupt = true;            // wait for the interrupt if the UIO device has one
  bool shared = false;              // with other processes, see shared_turns.h
  int priority = 0;                 // among these, higher ones first
  UdmabufMemory::Options memory = {};  // first choice
  ZoclMemory::Options zocl = {};       // second choice; PYNQ images have it
  DmaHeapMemory::Options heap = {};    // third choice; needs a contiguous heap
  HardwareDevice::Options driver = {};
  std::string devices = "/dev";
  std::string classes = "/sys/class";
  std::string pages = "/dev/shm";  // of the pages that processes share
};

/// True if this machine has the UIO device of the registers. Does not open it.
[[nodiscard]] bool uio_device_present(const UioOptions& options);

/// True if the accelerator is the virtual board's, which has its own reset (fpga_model.h).
[[nodiscard]] bool uio_device_is_emulated(const UioOptions& options);

/// Opens this board's memory: u-dma-buf, otherwise zocl, otherwise a dma-heap. Returns their
/// errors.
Result<std::unique_ptr<DeviceMemory>> open_uio_memory(const UioOptions& options);

/// Opens the accelerator. kNotFound names the missing device and the existing ones. kDevice if
/// another process uses it, unless both share it. `memory` is borrowed.
Result<std::unique_ptr<HardwareDevice>> open_uio_device(const Accelerator& accelerator,
                                                        DeviceMemory& memory,
                                                        const UioOptions& options);

}  // namespace edgepipe
