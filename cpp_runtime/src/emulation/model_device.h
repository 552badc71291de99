// ModelDevice: the board's driver, rehearsed in this process on a model of the FPGA.
//
//   auto memory = NonCoherentMemory::create({});
//   auto device = ModelDevice::create(accelerator, **memory, (*memory)->device_side(),
//                                     {.model = {.faults = {{FaultKind::kHang, 7}}}});
//
// The driver is the board's (hardware_device.h): fence, interrupt, reset, recovery. Behind its
// registers a thread runs FpgaModel with the strict simulator, which sees memory as an accelerator
// without cache coherence does. So what runs here has its cache maintenance right, and what a hang
// or a stale done flag does to it can be tried without a board.
#pragma once

#include <memory>

#include "device/hardware_device.h"
#include "edgepipe/device.h"
#include "edgepipe/status.h"
#include "emulation/fpga_model.h"

namespace edgepipe {

class ModelDevice final : public Device {
 public:
  struct Options {
    FpgaModel::Options model = {};  // what goes wrong, and where it is told (on the model's thread)
    HardwareDevice::Options driver = {};
    bool interrupt = true;  // false: the driver polls
    bool reset = true;      // false: a hang is for good
  };

  /// `memory` is what the driver sees, `device_side` the same as the accelerator sees it; both are
  /// borrowed and outlive the device. kInvalidArgument for an impossible accelerator.
  static Result<std::unique_ptr<ModelDevice>> create(const Accelerator& accelerator,
                                                     DeviceMemory& memory,
                                                     DeviceMemory& device_side,
                                                     const Options& options);
  ~ModelDevice() override;

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;
  Status prepare(const Submission& submission) override;
  Status run(const Submission& submission) override;

  /// See HardwareDevice.
  [[nodiscard]] HardwareDevice::Statistics statistics();

 private:
  class Impl;
  explicit ModelDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
