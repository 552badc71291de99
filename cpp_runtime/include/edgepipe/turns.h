// Turns: exclusive use of a device, granted in the order of the requests.
//
//   Result<Turns::Turn> turn = turns.take(Clock::now() + 20s);
//   if (!turn.ok()) return turn.status();  // others used the device all that time
//   ...                                    // the turn ends with its scope
//
// A mutex would also exclude, but it may favour the same stage repeatedly, and it has no deadline.
// Any thread may call take; a Turn stays on its thread. Nothing allocates.
#pragma once

#include <utility>

#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

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

  /// Blocks until all earlier requests are done; kDeadline says how many are still ahead.
  Result<Turn> take(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

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

}  // namespace edgepipe
