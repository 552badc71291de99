// Device: something that runs VTA instruction streams (the simulator, or the accelerator itself).
//
//   Status status = device.run({.address = insns.device_address(), .count = 812,
//                               .time_limit = 1s});
//
// Every program is checked before any device runs it: prepare() and run() check
// it and then call prepare_checked() and run_checked(), which derived classes implement. A program
// that breaks a rule of the accelerator, or that accesses memory other than its own, never runs.
//
// conformance/device_suite.h tests these promises on any device.
//
// Thread rules: run may be called from any thread; calls are served one at a time, in the order in
// which they arrive. Turns, below, implements that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ProgramGate;
struct CheckedProgram;

/// One run of a program. Everything is borrowed for the call; `layers` is used only in error texts.
struct Submission {
  std::uint64_t address = 0;  // device address of the first instruction, 16-byte aligned
  std::uint32_t count = 0;    // instructions, the last one FINISH
  // Counts from the start of its turn; any value up to nanoseconds::max().
  std::chrono::nanoseconds time_limit = std::chrono::hours(24);
  Clock::time_point turn_deadline = Clock::time_point::max();  // to get its turn
  std::span<const LayerRange> layers = {};
  std::chrono::nanoseconds modelled_time{0};  // time on the board by the model; see timed_device.h
  // What the program may access. Constant ranges keep their content from prepare() on. Empty: every
  // allocation of the device's memory.
  std::span<const MemoryRange> ranges = {};
  // The verdict on this program, set for prepare_checked() and run_checked(). A device that hands
  // its programs to another one passes it on, so that they are not checked twice.
  const CheckedProgram* checked = nullptr;
  std::chrono::nanoseconds* waited = nullptr;  // run() adds how long it waited for its turn
  // run() adds how long the device itself took, from its start to its end: neither the wait nor the
  // check of the program. Runs that fail add nothing.
  std::chrono::nanoseconds* ran = nullptr;
};

/// Exclusive use of a device, granted in the order of the requests:
///
///   Result<Turns::Turn> turn = turns.take(submission.turn_deadline);
///   if (!turn.ok()) return turn.status();  // others used the device all that time
///   ...                                    // the turn ends with its scope
///
/// A mutex would also exclude, but it may favour the same stage repeatedly, and it has no deadline.
/// Any thread may call take; a Turn stays on its thread. Nothing allocates.
class Turns {
 public:
  /// Holds the device and passes it to the next waiter when destroyed. Movable, not copyable.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->pass_on();
    }

   private:
    friend class Turns;
    explicit Turn(Turns* turns) : turns_(turns) {}

    Turns* turns_;
  };

  /// Blocks until all earlier requests are done; kDeadline says how many are still ahead. Adds the
  /// time to `waited`.
  Result<Turn> take(Clock::time_point deadline, std::chrono::nanoseconds* waited = nullptr)
      EDGEPIPE_EXCLUDES(mutex_);

 private:
  struct Waiter {
    CondVar wake;
    Waiter* next = nullptr;
    bool called = false;
  };

  void pass_on() EDGEPIPE_EXCLUDES(mutex_);
  std::size_t leave(const Waiter& waiter) EDGEPIPE_REQUIRES(mutex_);

  Mutex mutex_;
  bool taken_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  Waiter* first_ EDGEPIPE_GUARDED_BY(mutex_) = nullptr;  // waiters live on their threads' stacks
};

class Device {
 public:
  Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device();

  [[nodiscard]] virtual const Accelerator& accelerator() const = 0;

  /// The memory of this device's instructions and data; valid for the lifetime of the device.
  [[nodiscard]] virtual DeviceMemory& memory() = 0;

  /// Checks a program and does all other work that is possible before its first run, so that no
  /// frame waits for it. Ignores the time limit. May block and allocate. kDevice if the
  /// instructions are not inside one allocation or if the program breaks a rule; names the
  /// instruction, its layer and the rule.
  Status prepare(const Submission& submission);

  /// Runs a program to its FINISH; blocks until its last store is in memory. Reads instructions and
  /// micro-ops again in every run, and checks them as prepare() does if they differ from those that
  /// were checked. kDeadline if its turn does not come or its time runs out, with the progress that
  /// the device can report; kDevice if the accelerator reports a fault. The same program can be run
  /// again afterwards, unless the error says otherwise.
  Status run(const Submission& submission);

 protected:
  /// prepare() after the check. Optional.
  virtual Status prepare_checked(const Submission& submission);

  /// run() after the check.
  virtual Status run_checked(const Submission& submission) = 0;

 private:
  template <typename Use>
  Status admit(const Submission& submission, Use use);

  const std::unique_ptr<ProgramGate> gate_;
};

/// The devices for the VTA stages of a graph. Several devices of one kind are assigned in turn.
struct DeviceSet {
  std::vector<Device*> devices;             // borrowed; all use the same memory
  std::chrono::milliseconds time_limit{0};  // of one run; 0: kModelledTimes the modelled time, but
  std::chrono::milliseconds least_time_limit{10'000};  // not less than this
  bool board_time = false;  // ARM stages take at least their modelled time, as these devices do

  static constexpr int kModelledTimes = 20;

  /// The time limit of a program with this modelled time; 0: not modelled.
  [[nodiscard]] std::chrono::milliseconds limit_for(std::chrono::nanoseconds modelled_time) const;
};

}  // namespace edgepipe
