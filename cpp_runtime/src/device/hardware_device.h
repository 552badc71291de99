// HardwareDevice: the driver of a real VTA, behind injected registers, interrupt, reset and memory.
//
//   auto device = HardwareDevice::create(accelerator, std::move(parts), {});
//   Status status = (*device)->run({.address = insns.device_address(), .count = 812});
//
// uio_device.h puts the parts together on a board; tests put a model behind the registers.
//
//             run                    fence seen, done = 1
//   ready ------------> running ---------------------------> ready
//                          | deadline
//                          v          reset worked
//                        hung ----------------------------> ready
//                          | no reset line, or it failed
//                          v
//                        broken: every run is kDevice until the accelerator is programmed anew
//
// Why a fence: the done flag of the run before is still up when a run begins, and nothing tells
// when it was cleared. So the driver runs a copy of the program in which a few instructions before
// FINISH (run_fence.h) store a number that is new in every run. A run has ended when that number is
// in memory and done is 1; neither the flag nor an interrupt is trusted alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "device/turns.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "isa/instruction.h"

namespace edgepipe {

/// The accelerator's registers, by the offsets of vta_registers.h.
class RegisterFile {
 public:
  virtual ~RegisterFile() = default;
  [[nodiscard]] virtual std::uint32_t read(std::uint32_t offset) const = 0;

  /// Everything written to memory before is visible to the accelerator before this write is.
  virtual void write(std::uint32_t offset, std::uint32_t value) = 0;
};

/// The accelerator's interrupt as a process sees it.
class InterruptSource {
 public:
  virtual ~InterruptSource() = default;

  /// Forgets what has come so far and lets the next one through.
  virtual Status arm() = 0;

  /// Waits for an interrupt since `arm`; false when `deadline` passes without one.
  virtual Result<bool> wait(std::chrono::steady_clock::time_point deadline) = 0;
};

/// What brings a hung accelerator back: the PL's reset line, or the bitstream programmed again.
class ResetLine {
 public:
  virtual ~ResetLine() = default;

  /// Resets the accelerator; all its registers are 0 afterwards. Blocks, for a second at most.
  virtual Status reset() = 0;
};

class HardwareDevice final : public Device {
 public:
  struct Parts {
    std::unique_ptr<RegisterFile> registers;
    std::unique_ptr<InterruptSource> interrupt;  // none: the driver polls
    std::unique_ptr<ResetLine> reset;            // none: a hang is for good
    DeviceMemory* memory = nullptr;              // borrowed; outlives the device
  };

  struct Options {
    /// Without an interrupt, memory and the done flag are looked at this often.
    std::chrono::microseconds poll_interval{100};
    /// With one, they are looked at after this long all the same: an interrupt can get lost.
    std::chrono::milliseconds interrupt_patience{20};
    std::size_t kept_programs = 64;  // copies with a fence; the oldest used goes first
  };

  /// What has been survived so far.
  struct Statistics {
    std::uint64_t runs = 0;
    std::uint64_t stale_done = 0;       // runs in which done was up before the fence was there
    std::uint64_t lost_interrupts = 0;  // runs seen to have ended before any interrupt came
    std::uint64_t hangs = 0;            // deadlines passed
    std::uint64_t resets = 0;           // resets that worked
  };

  /// kInvalidArgument for an impossible accelerator or missing parts, kOutOfMemory when the memory
  /// has no room for the fence. Does not touch the registers.
  static Result<std::unique_ptr<HardwareDevice>> create(const Accelerator& accelerator, Parts parts,
                                                        const Options& options);

  [[nodiscard]] const Accelerator& accelerator() const override { return accelerator_; }
  [[nodiscard]] DeviceMemory& memory() override { return *parts_.memory; }

  /// Makes the copy of the program that run starts. kInvalidArgument for a program whose last
  /// instruction is not a FINISH that waits for the last store, kOutOfMemory without room.
  Status prepare(const Submission& submission) override;

  /// See Device. kDeadline tells what registers and memory say about the hang, and that the
  /// accelerator has been reset, or why not.
  /// Allocates only for a program that it has not seen.
  Status run(const Submission& submission) override;

  /// Blocks while a program runs.
  [[nodiscard]] Statistics statistics();

 private:
  struct FencedProgram {
    std::vector<InstructionWord> original;
    Buffer copy;
    std::uint32_t count = 0;
  };

  HardwareDevice(const Accelerator& accelerator, Parts parts, const Options& options, Buffer fence);
  Result<const FencedProgram*> find(const Submission& submission);
  Result<FencedProgram> make_fenced(std::span<const InstructionWord> original);
  void write_sequence();
  void start(const FencedProgram& program);
  Status wait(const Submission& submission);
  [[nodiscard]] bool stored_sequence();
  [[nodiscard]] bool fence_reached();
  [[nodiscard]] std::string describe_hang(const Submission& submission);
  Status recover(const Status& reason);

  const Accelerator accelerator_;
  const InstructionCodec codec_;
  const Options options_;
  const Parts parts_;
  Buffer fence_;  // a uop, the number as an acc element, and where the store writes it

  Turns turns_;                        // what follows is used by whose turn it is
  std::list<FencedProgram> programs_;  // the latest used first
  std::uint32_t sequence_ = 0;
  bool done_was_stale_ = false;
  bool broken_ = false;
  Statistics statistics_;
};

}  // namespace edgepipe
