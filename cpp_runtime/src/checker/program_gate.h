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
// A pipeline has a program for each of its stages and slots, hundreds with many stages, and runs
// one after the other. So a program is known as long as its instructions are allocated: it is
// forgotten when a new one is checked after they were released, or written to the same address.
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
#include <unordered_map>
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
    unsigned users = 0;      // passes; a verdict in use neither moves nor changes
    unsigned addresses = 0;  // where its instructions were last seen
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

  /// The number of programs that it knows.
  [[nodiscard]] std::size_t programs() EDGEPIPE_EXCLUDES(mutex_);

 private:
  using Place = std::list<Verdict>::iterator;

  std::optional<Pass> find(const Accelerator& accelerator, const DeviceMemory& memory,
                           std::span<const InstructionWord> words, const Request& request)
      EDGEPIPE_REQUIRES(mutex_);
  void put(std::uint64_t address, Place verdict) EDGEPIPE_REQUIRES(mutex_);
  void leave(Place verdict) EDGEPIPE_REQUIRES(mutex_);
  void forget_released(const DeviceMemory& memory) EDGEPIPE_REQUIRES(mutex_);
  Pass enter(Verdict& verdict) EDGEPIPE_REQUIRES(mutex_);
  void end(Verdict& verdict) EDGEPIPE_EXCLUDES(mutex_);

  Mutex mutex_;
  std::list<Verdict> verdicts_ EDGEPIPE_GUARDED_BY(mutex_);                  // newest first
  std::unordered_map<std::uint64_t, Place> at_ EDGEPIPE_GUARDED_BY(mutex_);  // by address
};

}  // namespace edgepipe
