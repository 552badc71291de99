// Device: something that runs VTA instruction streams (the simulator, or the accelerator itself).
//
//   Status status = device.run({.address = insns.device_address(), .count = 812,
//                               .time_limit = 1s});
//
// Thread rules: run may be called from any thread; calls are served one after the other, in the
// order in which they came (turns.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

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
  std::chrono::nanoseconds time_limit = std::chrono::hours(24);  // from the moment of its turn
  Clock::time_point turn_deadline = Clock::time_point::max();    // to get its turn
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
  /// waits for it. Optional; the time limit is ignored. May block and allocate.
  virtual Status prepare(const Submission& submission) = 0;

  /// Runs a program to its FINISH; blocks until then. kDeadline when time runs out, with what the
  /// device can tell about how far it got, kDevice when the accelerator reports a fault or, in the
  /// simulator, when the program breaks a rule. The same program can be run again afterwards.
  virtual Status run(const Submission& submission) = 0;
};

/// What runs the VTA stages of a graph: several devices of one kind take the stages in turn.
struct DeviceSet {
  std::vector<Device*> devices;                  // borrowed; all use the same memory
  std::chrono::milliseconds time_limit{10'000};  // of one run
};

}  // namespace edgepipe
