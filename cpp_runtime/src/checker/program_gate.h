// ProgramGate: lets a device run only programs that have passed the check.
//
//   ProgramGate gate;
//   Result<ProgramGate::Pass> pass = gate.admit(accelerator, memory, {.address = a, .count = n});
//   if (!pass.ok()) return pass.status();
//   ... (*pass)->steps ...
//
// The first time it sees a program, it checks it (program_checker.h). Later it only compares the
// instructions in memory with the checked ones. Device::prepare and Device::run go through the gate
// of their device, so no class derived from Device can run an unchecked program.
//
// Thread rules: any thread may call admit; the lock is not held during a check. A Pass stays on one
// thread and ends before its gate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "checker/program_checker.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ProgramGate {
  struct Verdict {
    CheckedProgram program;
    unsigned users = 0;  // passes; a verdict in use neither moves nor changes
  };

 public:
  /// Where a program is in device memory, and what it may access.
  struct Request {
    std::uint64_t address = 0;
    std::uint32_t count = 0;  // instructions
    std::span<const LayerRange> layers = {};
    std::span<const MemoryRange> ranges = {};  // empty: every allocation
  };

  /// Access to a checked program. Movable, not copyable.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), verdict_(other.verdict_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->end(*verdict_);
    }

    const CheckedProgram& operator*() const { return verdict_->program; }
    const CheckedProgram* operator->() const { return &verdict_->program; }

   private:
    friend class ProgramGate;
    Pass(ProgramGate* gate, Verdict* verdict) : gate_(gate), verdict_(verdict) {}

    ProgramGate* gate_;
    Verdict* verdict_;
  };

  /// The verdict on the program in `memory`. kDevice for instructions that are misaligned or not
  /// inside one allocation, otherwise as check_program. Allocates only for a program that it has
  /// not seen, or whose buffers have moved while it runs.
  Result<Pass> admit(const Accelerator& accelerator, const DeviceMemory& memory,
                     const Request& request) EDGEPIPE_EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kKept = 64;  // the least recently used one is dropped

  std::optional<Pass> find(const Accelerator& accelerator, const DeviceMemory& memory,
                           std::span<const InstructionWord> words,
                           std::span<const MemoryRange> ranges) EDGEPIPE_REQUIRES(mutex_);
  Pass enter(Verdict& verdict) EDGEPIPE_REQUIRES(mutex_);
  void end(Verdict& verdict) EDGEPIPE_EXCLUDES(mutex_);

  Mutex mutex_;
  std::list<Verdict> verdicts_ EDGEPIPE_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace edgepipe
