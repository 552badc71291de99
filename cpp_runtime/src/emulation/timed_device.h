// TimedDevice: another device, no faster than the board would be.
//
//   TimedDevice device(std::move(simulator));
//   Status status = device.run(submission);  // returns after submission.modelled_time or later
//
// A run ends when the inner device has done it and the program's modelled time has passed since its
// turn came, whichever is later; meanwhile other stages wait, as they do for the accelerator. A
// pipeline then shows the board's rhythm wherever this machine is fast enough. What the ARM stages
// take stays this machine's.
#pragma once

#include <memory>

#include "device/turns.h"
#include "edgepipe/device.h"

namespace edgepipe {

class TimedDevice : public Device {
 public:
  /// Owns the device that does the work.
  explicit TimedDevice(std::unique_ptr<Device> inner);

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;
  Status prepare(const Submission& submission) override;

  /// As the inner device's; kDeadline, at the time limit, when the modelled time is longer.
  Status run(const Submission& submission) override;

 private:
  std::unique_ptr<Device> inner_;
  Turns turns_;
};

}  // namespace edgepipe
