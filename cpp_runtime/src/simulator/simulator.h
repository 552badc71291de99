// Simulator: a VTA in software, bit for bit the hardware's results, and stricter than it.
//
//   auto memory = HostMemory::create({});
//   auto simulator = Simulator::create(accelerator, **memory);
//   Status status = (*simulator)->run({.address = insns.device_address(), .count = 812});
//
// The first run of a program checks it (program_checker.h); later runs of the same instructions and
// uops reuse the verdict and only compute. SRAM contents do not outlive a run.
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
    std::string kernel;                 // GEMM kernel by name; empty takes the fastest
    std::size_t checked_programs = 64;  // verdicts kept; the oldest used goes first
  };

  /// `memory` is borrowed and outlives the simulator. kInvalidArgument for an impossible
  /// accelerator, kUnsupported for a kernel that this CPU cannot run (names those it can).
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

  /// Checks the program unless its verdict is kept. See Device.
  Status prepare(const Submission& submission) override;

  /// See Device. Allocates only when it checks a program that it has not seen.
  Status run(const Submission& submission) override;

 private:
  class Impl;
  explicit Simulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
