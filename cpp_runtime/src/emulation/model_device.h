// ModelDevice: the board's driver on a model of the FPGA, in this process.
//
//   auto memory = NonCoherentMemory::create({});
//   auto device = ModelDevice::create(accelerator, **memory, (*memory)->device_side(),
//                                     {.model = {.faults = {{FaultKind::kHang, 7}}}});
//
// The driver is the one for boards (hardware_device.h), with fence, interrupt, reset and recovery.
// Behind its registers a thread runs FpgaModel with the strict simulator, which sees memory like an
// accelerator without cache coherence. A bundle that runs here correctly has correct cache
// maintenance, and hangs and stale done flags can be tested without a board.
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
    FpgaModel::Options model =
        {};  // injected faults, and the event callback (on the model's thread)
    HardwareDevice::Options driver = {};
    bool interrupt = true;  // false: the driver polls
    bool reset = true;      // false: a hang is permanent
  };

  /// `memory` is the driver's view, `device_side` the accelerator's view of the same memory; both
  /// are borrowed and must outlive the device. kInvalidArgument for an invalid accelerator.
  static Result<std::unique_ptr<ModelDevice>> create(const Accelerator& accelerator,
                                                     DeviceMemory& memory,
                                                     DeviceMemory& device_side,
                                                     const Options& options);
  ~ModelDevice() override;

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;

  /// See HardwareDevice.
  [[nodiscard]] HardwareDevice::Statistics statistics();

 protected:
  Status prepare_checked(const Submission& submission) override;
  Status run_checked(const Submission& submission) override;

 private:
  class Impl;
  explicit ModelDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
