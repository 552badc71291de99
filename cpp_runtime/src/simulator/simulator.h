// Simulator: a VTA in software with bit-exact results.
//
//   auto memory = HostMemory::create({});
//   auto simulator = Simulator::create(accelerator, **memory);
//   Status status = (*simulator)->run({.address = insns.device_address(), .count = 812});
//
// Every device checks its programs (device.h), so a run only computes. SRAM contents are lost after
// a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"

namespace edgepipe {

class Simulator final : public Device {
 public:
  struct Options {
    std::string kernel;  // GEMM kernel by name; empty: the fastest
  };

  /// `memory` is borrowed and must outlive the simulator. kInvalidArgument for an invalid
  /// accelerator, kUnsupported for a kernel that this CPU cannot run (the message names those it
  /// can).
  static Result<std::unique_ptr<Simulator>> create(const Accelerator& accelerator,
                                                   DeviceMemory& memory, const Options& options);
  static Result<std::unique_ptr<Simulator>> create(const Accelerator& accelerator,
                                                   DeviceMemory& memory) {
    return create(accelerator, memory, Options{});
  }
  ~Simulator() override;

  /// Names of the GEMM kernels that this CPU can run for this accelerator, fastest first.
  static std::vector<std::string> kernel_names(const Accelerator& accelerator);

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;

 protected:
  /// See Device. Allocates nothing.
  Status run_checked(const Submission& submission) override;

 private:
  class Impl;
  explicit Simulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
