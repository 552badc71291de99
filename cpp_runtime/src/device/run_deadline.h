// run_deadline: the time at which a run that starts now has taken too long.
#pragma once

#include <algorithm>

#include "edgepipe/sync.h"

namespace edgepipe {

/// `time_limit` from now, or a year from now if the clock would overflow.
inline Clock::time_point run_deadline(std::chrono::nanoseconds time_limit) {
  constexpr std::chrono::hours kYear{24 * 365};
  return Clock::now() + std::min<std::chrono::nanoseconds>(time_limit, kYear);
}

}  // namespace edgepipe
