// Device: something that runs VTA instruction streams (the simulator, or the accelerator itself).
//
//   Status status = device.run({.address = insns.device_address(), .count = 812,
//                               .deadline = std::chrono::steady_clock::now() + 1s});
//
// Thread rules: run may be called from any thread; calls are served one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// The instructions [first, first + count) were made from the layer `name`.
struct LayerRange {
  std::string name;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One run of a program. `layers` is borrowed for the call and only serves error texts.
struct Submission {
  std::uint64_t address = 0;  // device address of the first instruction, 16-byte aligned
  std::uint32_t count = 0;    // instructions, the last one FINISH
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::span<const LayerRange> layers = {};
  std::chrono::nanoseconds modelled_time{0};  // what the board would take; see timed_device.h
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const Accelerator& accelerator() const = 0;

  /// Where this device's instructions and data live. Valid as long as the device.
  [[nodiscard]] virtual DeviceMemory& memory() = 0;

  /// Does what can be done before the first run of a program, such as checking it, so that no frame
  /// waits for it. Optional; the deadline is ignored. May block and allocate.
  virtual Status prepare(const Submission& submission) = 0;

  /// Runs a program to its FINISH; blocks until then. kDeadline when time runs out, kDevice when
  /// the accelerator reports a fault or, in the simulator, when the program breaks a rule.
  virtual Status run(const Submission& submission) = 0;
};

}  // namespace edgepipe
