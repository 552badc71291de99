// poll_for: looks again and again whether something has happened, without giving the core away.
//
//   if (!poll_for(50us, [&] { return ready.load(std::memory_order_acquire); })) sleep();
#pragma once

#include "edgepipe/sync.h"

namespace edgepipe {

/// Tells the core that this is a loop that waits.
inline void pause_polling() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

/// True once `happened()` is; false when `time` has passed before.
template <typename Happened>
bool poll_for(Clock::duration time, const Happened& happened) {
  // A look at the clock takes about as long as this many looks at a counter.
  constexpr int kPollsPerClock = 16;
  const Clock::time_point end = Clock::now() + time;
  do {
    for (int i = 0; i < kPollsPerClock; ++i) {
      if (happened()) return true;
      pause_polling();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace edgepipe
