#include <algorithm>
#include <string>

#include "edgepipe/device.h"

namespace edgepipe {

Result<Turns::Turn> Turns::take(Clock::time_point deadline, std::chrono::nanoseconds* waited) {
  MutexLock lock(mutex_);
  if (!taken_) {
    taken_ = true;
    return Turn(this);
  }
  Waiter self;
  Waiter** end = &first_;
  while (*end != nullptr) end = &(*end)->next;
  *end = &self;
  const Clock::time_point began = Clock::now();
  const Clock::time_point bounded = std::min(deadline, far_future());
  while (!self.called) {
    if (self.wake.wait_until(lock, bounded) || self.called) continue;
    return Status(Code::kDeadline,
                  "no turn on the device before the deadline: " + std::to_string(leave(self)) +
                      " runs were ahead",
                  "allow the device more time, or give it fewer stages and pipelines");
  }
  if (waited != nullptr) *waited += Clock::now() - began;
  return Turn(this);
}

void Turns::pass_on() {
  MutexLock lock(mutex_);
  if (first_ == nullptr) {
    taken_ = false;
    return;
  }
  Waiter* const next = std::exchange(first_, first_->next);
  next->called = true;
  next->wake.notify();  // under the lock: the waiter may be destroyed once it has seen `called`
}

/// Removes a waiter from the queue; returns how many runs were ahead, including the running one.
std::size_t Turns::leave(const Waiter& waiter) {
  std::size_t ahead = 1;
  Waiter** at = &first_;
  for (; *at != &waiter; at = &(*at)->next) ++ahead;
  *at = waiter.next;
  return ahead;
}

}  // namespace edgepipe
