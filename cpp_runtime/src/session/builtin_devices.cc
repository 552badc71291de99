#include "session/builtin_devices.h"

#include <chrono>
#include <string>
#include <utility>

#include "device/foreign_device.h"
#include "device/uio_device.h"
#include "emulation/model_device.h"
#include "emulation/rtl_device.h"
#include "emulation/timed_device.h"
#include "memory/non_coherent_memory.h"
#include "simulator/simulator.h"

namespace edgepipe {
namespace {

Result<DeviceGroup> open_simulators(const DeviceRequest& request) {
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = request.memory_bytes});
  if (!memory.ok()) return memory.status();
  DeviceGroup group;
  for (std::size_t count = request.indices.size(); count > 0; --count) {
    Result<std::unique_ptr<Simulator>> device = Simulator::create(request.accelerator, **memory);
    if (!device.ok()) return device.status();
    group.devices.push_back(*std::move(device));
  }
  group.own_memory = *std::move(memory);
  return group;
}

Result<DeviceGroup> open_timed(const DeviceRequest& request) {
  Result<DeviceGroup> group = open_simulators(request);
  if (!group.ok()) return group;
  for (std::unique_ptr<Device>& device : group->devices) {
    device = std::make_unique<TimedDevice>(std::move(device));
  }
  return group;
}

constexpr const char* kExamine = "examine the board with `edgepipe doctor`";

Result<DeviceGroup> open_uio(const DeviceRequest& request) { return open_board(request, {}); }

Result<DeviceGroup> open_models(const DeviceRequest& request) {
  FpgaModel::Options model;
  for (const std::string& text : request.faults) {
    const Result<Fault> fault = parse_fault(text);
    if (!fault.ok()) return fault.status();
    model.faults.push_back(*fault);
  }
  Result<std::unique_ptr<NonCoherentMemory>> memory =
      NonCoherentMemory::create({.arena_bytes = request.memory_bytes});
  if (!memory.ok()) return memory.status();
  DeviceGroup group;
  for (std::size_t count = request.indices.size(); count > 0; --count) {
    Result<std::unique_ptr<ModelDevice>> device = ModelDevice::create(
        request.accelerator, **memory, (*memory)->device_side(), {.model = model});
    if (!device.ok()) return device.status();
    group.devices.push_back(*std::move(device));
  }
  group.own_memory = *std::move(memory);
  return group;
}

Result<DeviceGroup> open_rtl(const DeviceRequest& request) {
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = request.memory_bytes});
  if (!memory.ok()) return memory.status();
  DeviceGroup group;
  for (std::size_t count = request.indices.size(); count > 0; --count) {
    Result<std::unique_ptr<RtlDevice>> device =
        RtlDevice::create(request.accelerator, **memory, request.argument, {});
    if (!device.ok()) return device.status();
    group.devices.push_back(*std::move(device));
  }
  group.own_memory = *std::move(memory);
  return group;
}

Result<DeviceGroup> open_driver(const DeviceRequest& request) {
  const Result<NamedLibrary> library = parse_library(request.argument);
  if (!library.ok()) return library.status();
  Result<std::unique_ptr<Device>> device = open_foreign_device(request.accelerator, *library);
  if (!device.ok()) {
    return device.status().advised("name a library that has the functions of VTA's driver.h");
  }
  DeviceGroup group;
  group.devices.push_back(*std::move(device));
  return group;
}

}  // namespace

Result<DeviceGroup> open_board(const DeviceRequest& request, UioOptions board) {
  board.memory.name = "udmabuf" + std::to_string(request.indices.front());
  board.shared = request.shared;
  board.priority = request.priority;
  Result<std::unique_ptr<DeviceMemory>> memory = open_uio_memory(board);
  if (!memory.ok()) return memory.status().advised(kExamine);
  DeviceGroup group{.own_memory = *std::move(memory), .devices = {}};
  for (const std::size_t index : request.indices) {
    board.index = index;
    Result<std::unique_ptr<HardwareDevice>> device =
        open_uio_device(request.accelerator, *group.own_memory, board);
    if (!device.ok()) return device.status().advised(kExamine);
    group.devices.push_back(*std::move(device));
  }
  // The virtual board's accelerator is a simulator.
  board.index = 0;
  if (!uio_device_is_emulated(board)) group.least_time_limit = std::chrono::seconds(1);
  return group;
}

std::vector<DeviceKind> builtin_devices() {
  return {
      {.name = "simulator",
       .help = "the simulator, bit for bit the same as the accelerator",
       .open = open_simulators},
      {.name = "timed",
       .help = "the simulator, slowed down to the board's speed by its timing model",
       .board_time = true,
       .open = open_timed},
      {.name = "uio",
       .help = "this machine's accelerator",
       .shares = true,
       .programmable_logic = true,
       .present = [] { return uio_device_present({}); },
       .open = open_uio},
      {.name = "model",
       .help = "the board's driver on a model of the FPGA",
       .injects_faults = true,
       .open = open_models},
      {.name = "rtl",
       .help = "the board's driver on edgepipe's own hardware, compiled by Verilator to a library",
       .argument = "LIBRARY",
       .open = open_rtl},
      {.name = "driver",
       .help = "a shared library with the functions of VTA's driver.h, and its encoding revision",
       .argument = "PATH@REVISION",
       .open = open_driver},
  };
}

}  // namespace edgepipe
