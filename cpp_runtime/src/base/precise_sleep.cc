#include "base/precise_sleep.h"

#include <sys/prctl.h>

#include <thread>

namespace edgepipe {

void precise_sleep_until(Clock::time_point time) {
  prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds, of this thread; failure only costs precision
  std::this_thread::sleep_until(time);
}

}  // namespace edgepipe
