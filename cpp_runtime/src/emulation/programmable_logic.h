// ProgrammableLogic: what is behind the registers of an emulated FPGA, and its interrupt line.
#pragma once

#include <cstdint>

#include "edgepipe/status.h"

namespace edgepipe {

/// The interrupt line from the accelerator to the interrupt controller.
class InterruptLine {
 public:
  InterruptLine() = default;
  InterruptLine(const InterruptLine&) = delete;
  InterruptLine& operator=(const InterruptLine&) = delete;
  virtual ~InterruptLine() = default;

  /// Raises or lowers the line. kClosed if its other end is gone.
  virtual Status set(bool high) = 0;

  /// Raises and lowers the line.
  Status pulse() {
    if (Status status = set(true); !status.ok()) return status;
    return set(false);
  }
};

/// Registers are memory that a driver accesses from another thread or from a QEMU guest. Not
/// thread-safe: one thread steps.
class ProgrammableLogic {
 public:
  ProgrammableLogic() = default;
  ProgrammableLogic(const ProgrammableLogic&) = delete;
  ProgrammableLogic& operator=(const ProgrammableLogic&) = delete;
  virtual ~ProgrammableLogic() = default;

  /// Does what the registers request. True if there was something to do. kClosed if the other end
  /// of the interrupt line is gone.
  virtual Result<bool> step() = 0;

  /// Programs that were started.
  [[nodiscard]] virtual std::uint64_t runs() const = 0;
};

}  // namespace edgepipe
