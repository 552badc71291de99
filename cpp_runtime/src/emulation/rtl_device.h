// RtlDevice: the board's driver on edgepipe's own hardware, compiled by Verilator, in this process.
//
//   auto memory = HostMemory::create({});
//   auto device = RtlDevice::create(accelerator, **memory, "libvta_rtl.so", {});
//
// It has registers, DMA, interrupt and reset, and behind them the Verilog that a bitstream would be
// made from (rtl_fpga.h). Ten thousand times slower than an FPGA or more.
#pragma once

#include <memory>
#include <string>

#include "device/hardware_device.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

class RtlDevice final : public Device {
 public:
  struct Options {
    HardwareDevice::Options driver = {};
    bool interrupt = true;  // false: the driver polls
    bool reset = true;      // false: a hang ends with an abort, or not at all
  };

  /// `memory` is borrowed and must outlive the device. The errors of RtlCore::open and
  /// HardwareDevice::create, such as for a library of another accelerator.
  static Result<std::unique_ptr<RtlDevice>> create(const Accelerator& accelerator,
                                                   HostMemory& memory, const std::string& library,
                                                   const Options& options);
  ~RtlDevice() override;

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;

  /// See HardwareDevice.
  [[nodiscard]] HardwareDevice::Statistics statistics();

 protected:
  Status prepare_checked(const Submission& submission) override;
  Status run_checked(const Submission& submission) override;

 private:
  class Impl;
  explicit RtlDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
