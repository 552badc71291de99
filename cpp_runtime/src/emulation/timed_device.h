// TimedDevice: wraps a device and slows it down to the modelled speed of the board.
//
//   TimedDevice device(std::move(simulator));
//   Status status = device.run(submission);  // returns after submission.modelled_time or later
//
// A run ends when the inner device has finished it and the program's modelled time has passed since
// its turn began, whichever is later. Meanwhile other stages wait, as they do for the accelerator.
// A pipeline then has the board's timing if this machine is fast enough. TimedStage does the same
// for ARM stages.
#pragma once

#include <memory>

#include "edgepipe/device.h"

namespace edgepipe {

class TimedDevice : public Device {
 public:
  /// Takes ownership of the device that does the work.
  explicit TimedDevice(std::unique_ptr<Device> inner);

  [[nodiscard]] const Accelerator& accelerator() const override;
  [[nodiscard]] DeviceMemory& memory() override;

 protected:
  Status prepare_checked(const Submission& submission) override;

  /// Like the inner device; kDeadline at the time limit if the modelled time is longer.
  Status run_checked(const Submission& submission) override;

 private:
  std::unique_ptr<Device> inner_;
  Turns turns_;
};

}  // namespace edgepipe
