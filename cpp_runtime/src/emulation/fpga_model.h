// FpgaModel: what is behind the accelerator's registers, with any Device doing the work.
//
//   FpgaModel model(simulator, registers, interrupt, {.faults = {{FaultKind::kHang, 7}}});
//   for (;;) if (!model.step()) sleep_a_little();
//
// The registers are memory that a driver writes elsewhere: in another thread, or in a guest of
// QEMU. Memory has no side effects, so the model looks at it; what a register read would change in
// hardware (the control register's done bit clears on read) is left out, and no driver should need
// it.
//
//           start of fetch, others started           FINISH
//   idle ------------------------------------> busy --------> idle (done = 1, interrupt)
//    ^                                           | hang, or the device refuses the program
//    |          reset requested                  v
//    +---------------------------------------- hung
//
// Not thread-safe: one thread steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// The wire from the accelerator to the interrupt controller.
class InterruptLine {
 public:
  InterruptLine() = default;
  InterruptLine(const InterruptLine&) = delete;
  InterruptLine& operator=(const InterruptLine&) = delete;
  virtual ~InterruptLine() = default;

  /// Raises and lowers the line. kClosed when nothing is at its other end any more.
  virtual Status pulse() = 0;
};

enum class FaultKind {
  kHang,           // the run never ends, until a reset
  kStaleDone,      // done keeps showing the run before for `Options::stale_done`
  kLostInterrupt,  // the run ends without its interrupt
};

/// Goes wrong in every `every_runs`-th run, counted from 1. Where several are due, all happen.
struct Fault {
  FaultKind kind = FaultKind::kHang;
  std::uint64_t every_runs = 1;
};

/// Reads "hang=7", "stale-done=2" or "lost-interrupt=1". kInvalidArgument names the known kinds.
Result<Fault> parse_fault(const std::string& text);

class FpgaModel {
 public:
  // The model's reset page, after the accelerator's blocks: the stand-in for the PL's reset line. A
  // driver adds one to the request; the reset is done when the acknowledge word equals it.
  static constexpr std::uint32_t kResetRequest = 0x4000;
  static constexpr std::uint32_t kResetAcknowledge = 0x4004;
  static constexpr std::uint32_t kBytes = 0x5000;

  struct Options {
    std::vector<Fault> faults;
    std::chrono::milliseconds stale_done{20};
    std::function<void(const std::string&)> on_event = [](const std::string&) {};  // for a log
  };

  /// Everything is borrowed and outlives the model. `registers` has kBytes bytes, 4-byte aligned.
  FpgaModel(Device& device, std::span<std::byte> registers, InterruptLine& interrupt,
            Options options);

  /// Does what the registers ask for, runs a program to its end if that is it. True when there was
  /// something to do. kClosed when the interrupt has nobody to go to.
  Result<bool> step();

  [[nodiscard]] std::uint64_t runs() const { return runs_; }

 private:
  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const;
  void write(std::uint32_t offset, std::uint32_t value);
  [[nodiscard]] bool due(FaultKind kind) const;
  [[nodiscard]] Status execute();
  Status run();
  void reset();

  Device& device_;
  const std::span<std::byte> registers_;
  InterruptLine& interrupt_;
  const Options options_;
  std::uint64_t runs_ = 0;
  bool hung_ = false;
};

}  // namespace edgepipe
