#include "emulation/board_time.h"

#include <sys/prctl.h>

#include <thread>

namespace edgepipe {

void sleep_until_board_time(Clock::time_point time) {
  prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds, of this thread; failure only costs precision
  std::this_thread::sleep_until(time);
}

}  // namespace edgepipe
