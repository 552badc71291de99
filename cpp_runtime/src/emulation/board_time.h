// Waiting until work that is done would also be done on the board.
#pragma once

#include "edgepipe/sync.h"

namespace edgepipe {

/// Sleeps until `time`; returns at once if it has passed. Wakes up some microseconds late, not the
/// 50 that Linux allows itself for a thread.
void sleep_until_board_time(Clock::time_point time);

}  // namespace edgepipe
