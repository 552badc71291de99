// DrivenLogic: the board's driver on programmable logic that a thread of this process steps.
//
//   DrivenLogic driven;
//   FpgaModel model(simulator, driven.registers(), driven.interrupt(), {});
//   Status status = driven.start(model, accelerator, memory, {});
//   driven.driver().run(submission);
//
// The driver is the one for boards (hardware_device.h), with fence, interrupt, reset and recovery.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "device/hardware_device.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "emulation/programmable_logic.h"

namespace edgepipe {

class DrivenLogic {
 public:
  struct Options {
    HardwareDevice::Options driver = {};
    bool interrupt = true;  // false: the driver polls
    bool reset = true;      // false: there is no reset line
  };

  DrivenLogic();
  ~DrivenLogic();

  /// For the logic: vta::kBytesWithReset bytes, and the line that the driver waits for.
  [[nodiscard]] std::span<std::byte> registers();
  [[nodiscard]] InterruptLine& interrupt();

  /// Steps the logic from now on, and opens the driver. Both are borrowed, and must not be
  /// destroyed before stop(). Returns the errors of HardwareDevice::create.
  Status start(ProgrammableLogic& logic, const Accelerator& accelerator, DeviceMemory& memory,
               const Options& options);

  /// Ends the steps. The driver may not be used after it.
  void stop();

  [[nodiscard]] HardwareDevice& driver();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
