// poll_for: checks a condition repeatedly without yielding the core.
//
//   if (!poll_for(50us, [&] { return ready.load(std::memory_order_acquire); })) sleep();
#pragma once

#include "edgepipe/sync.h"

namespace edgepipe {

/// Tells the core that this is a spin-wait loop.
inline void pause_polling() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

/// True once `happened()` is true; false if `time` passes first.
template <typename Happened>
bool poll_for(Clock::duration time, const Happened& happened) {
  // Reading the clock takes about as long as this many reads of a counter.
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
