// DeviceRegistry: the kinds of device that a session can run VTA stages on, by name.
//
//   Status status = DeviceRegistry::instance().add({
//       .name = "mine",
//       .help = "the accelerator behind /dev/mine",
//       .open = [](const DeviceRequest& request) -> Result<DeviceGroup> {
//         DeviceGroup group;
//         group.own_memory = std::make_shared<MyMemory>();
//         group.devices.push_back(std::make_unique<MyDevice>(request, *group.own_memory));
//         return group;
//       }});
//   ...
//   Session::open("net.edgepipe", {.device = {.kind = "mine"}});  // or --device mine
//
// The built-in kinds are registered from the start. Thread rules: any thread may call any function.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Which kind of device runs the VTA stages, and which devices of that kind.
struct DeviceChoice {
  std::string kind = "auto";  // a registered name; auto: see DeviceRegistry::detect
  std::vector<std::size_t> indices = {
      0};                     // not empty; stage k runs on the k-th, modulo their count
  std::string argument = {};  // only of a kind that takes one
  bool shared = false;        // with other processes, run by run
  int priority = 0;           // among these, from -9 to 9: higher ones first
};

/// What a kind of device is opened for.
struct DeviceRequest {
  Accelerator accelerator;           // that the programs were compiled for
  std::vector<std::size_t> indices;  // from DeviceChoice; one device for each
  std::string argument;              // from DeviceChoice
  std::size_t memory_bytes;          // address space of devices without their own memory
  std::vector<std::string> faults;   // to inject, as in --fault; empty for most kinds
  bool shared = false;               // from DeviceChoice; false for kinds that are never shared
  int priority = 0;                  // from DeviceChoice
};

/// Open devices and the memory that their stages and the pipeline's slots use.
struct DeviceGroup {
  std::shared_ptr<DeviceMemory> own_memory;      // none: the first device's memory() is used
  std::vector<std::unique_ptr<Device>> devices;  // destroyed before the memory
  // See DeviceSet. Smaller for devices as fast as the board's accelerator.
  std::chrono::milliseconds least_time_limit = DeviceSet().least_time_limit;

  [[nodiscard]] DeviceMemory& memory() const {
    return own_memory ? *own_memory : devices.front()->memory();
  }
};

struct DeviceKind {
  std::string name;                 // letters, digits, - and _
  std::string help;                 // for --help: what it is, in a few words
  std::string argument = {};        // what follows NAME: in --device, e.g. "PATH"; empty: indices
  bool injects_faults = false;      // uses DeviceRequest::faults
  bool shares = false;              // several processes can use its devices: NAME:shared
  bool programmable_logic = false;  // the session compares the record of the FPGA's content first
  bool board_time = false;          // runs take their modelled time; ARM stages then do so, too
  /// Whether this machine has such a device; empty for kinds that run anywhere.
  std::function<bool()> present = {};
  /// Opens the devices. May block.
  std::function<Result<DeviceGroup>(const DeviceRequest& request)> open;
};

class DeviceRegistry {
 public:
  /// The registry of this process, which sessions and programs use.
  static DeviceRegistry& instance();

  /// A registry with the built-in kinds.
  DeviceRegistry();

  /// Adds a kind. kInvalidArgument for a name that is taken or malformed, or without `open`.
  Status add(DeviceKind kind);

  /// The kind of that name. kInvalidArgument lists the choices.
  [[nodiscard]] Result<DeviceKind> find(std::string_view name) const;

  /// All kinds, in the order of their registration.
  [[nodiscard]] std::vector<DeviceKind> kinds() const;

  /// The name that "auto" stands for: the first kind whose `present` says yes, else "simulator".
  [[nodiscard]] std::string detect() const;

  /// Reads "auto", "NAME", "NAME:1", "NAME:0+1", "NAME:shared", "NAME:1,shared,priority=2" or
  /// "NAME:ARGUMENT". kInvalidArgument lists the choices.
  [[nodiscard]] Result<DeviceChoice> parse(std::string_view text) const;

  /// What parse() reads, for error texts.
  [[nodiscard]] std::string choices() const;

 private:
  mutable std::mutex mutex_;
  std::vector<DeviceKind> kinds_;  // guarded by mutex_
};

}  // namespace edgepipe
