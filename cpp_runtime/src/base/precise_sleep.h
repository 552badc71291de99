// Sleeping that ends when it should.
#pragma once

#include "edgepipe/sync.h"

namespace edgepipe {

/// Sleeps until `time`; returns at once if it has passed. Wakes up some microseconds late, not the
/// 50 that Linux allows itself for a thread.
void precise_sleep_until(Clock::time_point time);

}  // namespace edgepipe
