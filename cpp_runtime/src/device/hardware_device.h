// HardwareDevice: the driver of a real VTA, behind injected registers, interrupt, reset and memory.
//
//   auto device = HardwareDevice::create(accelerator, std::move(parts), {});
//   Status status = (*device)->run({.address = insns.device_address(), .count = 812});
//
// uio_device.h assembles the parts on a board; tests put a model behind the registers.
//
//             run                    fence seen, done = 1
//   ready ------------> running ---------------------------> ready
//                          | deadline, or the device refuses the program
//                          v          abort or reset worked
//                        hung ----------------------------> ready
//                          | neither is possible, or both failed
//                          v
//                        broken: every run is kDevice until the accelerator is reprogrammed
//
// Several processes may share an accelerator (shared_turns.h): each run is a turn of its process.
// If a process died during its run, the next turn first proves that the accelerator is idle.
//
// Why a fence: the done flag of the previous run is still set when a run begins, and the driver
// cannot tell when it is cleared. So the driver runs a copy of the program in which a few
// instructions before FINISH (run_fence.h) store a number that is different in every run. A run has
// ended when that number is in memory and done is 1. Neither the flag nor an interrupt is
// sufficient alone.
//
// edgepipe's own hardware (own_registers.h) also says why a program ended early, refuses transfers
// outside this driver's memory, counts cycles, and can abort a program without a reset.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/own_registers.h"
#include "device/shared_turns.h"
#include "edgepipe/device.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// The accelerator's registers, at the offsets of vta_registers.h.
class RegisterFile {
 public:
  virtual ~RegisterFile() = default;
  [[nodiscard]] virtual std::uint32_t read(std::uint32_t offset) const = 0;

  /// All earlier writes to memory become visible to the accelerator before this write.
  virtual void write(std::uint32_t offset, std::uint32_t value) = 0;
};

/// The accelerator's interrupt, seen from a process.
class InterruptSource {
 public:
  virtual ~InterruptSource() = default;

  /// Discards earlier interrupts and enables the next one.
  virtual Status arm() = 0;

  /// Waits for an interrupt since `arm`; false if `deadline` passes without one.
  virtual Result<bool> wait(std::chrono::steady_clock::time_point deadline) = 0;
};

/// Recovers a hung accelerator: the PL's reset line, or reprogramming the bitstream.
class ResetLine {
 public:
  virtual ~ResetLine() = default;

  /// Resets the accelerator; all its registers are 0 afterwards. Blocks for at most a second.
  virtual Status reset() = 0;
};

class HardwareDevice final : public Device {
 public:
  struct Parts {
    std::unique_ptr<RegisterFile> registers;
    std::unique_ptr<InterruptSource> interrupt;  // null: the driver polls
    std::unique_ptr<ResetLine> reset;            // null: a hang is permanent
    std::unique_ptr<SharedTurns> sharing;        // null: this process has the accelerator alone
    DeviceMemory* memory = nullptr;              // borrowed; must outlive the device
  };

  struct Options {
    /// Without an interrupt, the interval between checks of memory and the done flag.
    std::chrono::microseconds poll_interval{100};
    /// With an interrupt, they are still checked at this interval, since interrupts can get lost.
    std::chrono::milliseconds interrupt_patience{20};
    /// How long to wait for a program of an earlier process to end.
    std::chrono::milliseconds start_patience{1000};
  };

  /// Faults that were handled so far.
  struct Statistics {
    std::uint64_t runs = 0;
    std::uint64_t stale_done = 0;       // runs in which done was set before the fence was stored
    std::uint64_t lost_interrupts = 0;  // runs that ended without an interrupt
    std::uint64_t hangs = 0;            // missed deadlines
    std::uint64_t resets = 0;           // successful resets
    std::uint64_t aborts = 0;           // programs that the device ended without a reset
    std::uint64_t orphans = 0;          // runs of other processes that died, found and ended
  };

  /// Aborts what runs, or resets the accelerator, or waits until it is idle and proves that with a
  /// program that only stores a number. kDevice if it still runs, or hangs in, a program of an
  /// earlier process; the errors of check_own_hardware if the FPGA says that it has another
  /// accelerator. kInvalidArgument for an invalid accelerator or missing parts, kOutOfMemory if
  /// there is no room for the fence.
  static Result<std::unique_ptr<HardwareDevice>> create(const Accelerator& accelerator, Parts parts,
                                                        const Options& options);
  ~HardwareDevice() override;

  [[nodiscard]] const Accelerator& accelerator() const override { return accelerator_; }
  [[nodiscard]] DeviceMemory& memory() override { return *parts_.memory; }

  /// Blocks while a program runs.
  [[nodiscard]] Statistics statistics();

 protected:
  /// Creates the copy of the program that run starts. kInvalidArgument for a program without a
  /// STORE before its FINISH; kOutOfMemory.
  Status prepare_checked(const Submission& submission) override;

  /// See Device. kDeadline describes the hang with registers and memory, and says whether the
  /// accelerator has been reset; kDevice says why the device has aborted the program. Allocates
  /// only for new programs.
  Status run_checked(const Submission& submission) override;

 private:
  struct FencedProgram {
    Buffer copy;
    std::uint32_t count = 0;   // instructions
    std::uint64_t source = 0;  // the address of the checked program
    std::size_t source_bytes = 0;
  };

  HardwareDevice(const Accelerator& accelerator, Parts parts, const Options& options, Buffer fence);
  void end_run();
  /// The accelerator: a turn among the threads of this process, then one among processes.
  class Hold {
   public:
    Hold(HardwareDevice& device, Turns::Turn turn);
    Hold(Hold&& other) noexcept
        : device_(std::exchange(other.device_, nullptr)),
          turn_(std::move(other.turn_)),
          shared_(std::move(other.shared_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold();
    void add(SharedTurns::Turn shared) { shared_.emplace(std::move(shared)); }

   private:
    HardwareDevice* device_;
    Turns::Turn turn_;
    std::optional<SharedTurns::Turn> shared_;
  };
  Result<Hold> take(Clock::time_point deadline, std::chrono::nanoseconds* waited);
  Status settle();
  Result<const FencedProgram*> find(const Submission& submission);
  Result<FencedProgram> make_fenced(const CheckedProgram& program);
  Result<FencedProgram> copy_fenced(std::span<const InstructionWord> fenced);
  void forget_released(std::uint64_t replaced);
  void write_sequence();
  void start(const FencedProgram& program);
  Status wait(const Submission& submission);
  Status prove_idle();
  Status run_fenced(const FencedProgram& program, const Submission& submission);
  void give_up();
  [[nodiscard]] bool stored_sequence();
  [[nodiscard]] bool fence_reached();
  [[nodiscard]] std::string describe_hang(const Submission& submission);
  Status recover(const Status& reason);
  enum class Stopped : std::uint8_t { kByAbort, kByReset };
  Result<Stopped> stop();

  const Accelerator accelerator_;
  const InstructionCodec codec_;
  const Options options_;
  const Parts parts_;
  std::unique_ptr<OwnRegisters> own_;  // null for a published bitstream
  Buffer fence_;  // a uop, the number as an acc element, and the destination of the store

  std::atomic<std::thread::id> holder_{};  // the thread that has the accelerator
  Turns turns_;                            // guards the members below
  // By number of the checked program, as long as its instructions are allocated.
  std::unordered_map<std::uint64_t, FencedProgram> programs_;
  std::uint32_t sequence_ = 0;
  bool done_was_stale_ = false;
  bool broken_ = false;
  Statistics statistics_;
};

}  // namespace edgepipe
