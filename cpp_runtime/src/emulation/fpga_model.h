// FpgaModel: the accelerator behind its registers, with any Device doing the computation.
//
//   FpgaModel model(simulator, registers, interrupt, {.faults = {{FaultKind::kHang, 7}}});
//   for (;;) if (!model.step()) sleep_a_little();
//
// The registers are memory that a driver accesses from another thread or from a QEMU guest. Memory
// has no side effects, so the model polls it. Side effects of register reads in hardware (the done
// bit of the control register clears on read) are not modelled; a driver should not need them.
//
//           start of fetch, others started           FINISH
//   idle ------------------------------------> busy --------> idle (done = 1, interrupt)
//    ^                                           | hang, or the device refuses the program
//    |          reset requested                  v
//    +---------------------------------------- hung
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "emulation/cost_model.h"
#include "emulation/program_timing.h"
#include "emulation/programmable_logic.h"

namespace edgepipe {

enum class FaultKind {
  kHang,           // the run does not end until a reset
  kStaleDone,      // done stays set from the previous run for `Options::stale_done`
  kLostInterrupt,  // the run ends without its interrupt
  kWrongBit,       // the first byte of the last STORE before the fence's (run_fence.h) is wrong
};

/// Occurs in every `every_runs`-th run, counted from 1. If several are due, all of them occur.
struct Fault {
  FaultKind kind = FaultKind::kHang;
  std::uint64_t every_runs = 1;
};

/// Reads a kind and an interval, such as "hang=7". kInvalidArgument names the known kinds.
Result<Fault> parse_fault(const std::string& text);

class FpgaModel final : public ProgrammableLogic {
 public:
  struct Options {
    std::vector<Fault> faults;
    std::chrono::milliseconds stale_done{20};
    // A run takes at least as long as an accelerator with these costs, but never less than the
    // device takes. The launch is the host's, so it is not added.
    std::optional<CostModel> timing = std::nullopt;
    std::function<void(const std::string&)> on_event = [](const std::string&) {};  // for a log
  };

  /// Everything is borrowed and must outlive the model. `registers` has vta::kBytesWithReset bytes,
  /// 4-byte aligned.
  FpgaModel(Device& device, std::span<std::byte> registers, InterruptLine& interrupt,
            Options options);

  /// Also runs a program to its end.
  Result<bool> step() override;

  [[nodiscard]] std::uint64_t runs() const override { return runs_; }

 private:
  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const;
  void write(std::uint32_t offset, std::uint32_t value);
  [[nodiscard]] bool due(FaultKind kind) const;
  [[nodiscard]] Status execute();
  [[nodiscard]] Status invert_stored_bit();
  [[nodiscard]] Status wait_for_end(Clock::time_point began);
  Status run();
  void reset();

  Device& device_;
  const std::span<std::byte> registers_;
  InterruptLine& interrupt_;
  const Options options_;
  std::optional<ProgramTimes> times_;
  std::vector<InstructionWord> program_;  // a copy for times_
  std::uint64_t runs_ = 0;
  bool hung_ = false;
};

}  // namespace edgepipe
