#include "media/sources/pacer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "media/sources/stop_interval.h"

namespace edgepipe {
Pacer::Pacer(const Pace& pace)
    : period_(pace.pictures_per_second > 0
                  ? std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(1.0 / pace.pictures_per_second))
                  : Clock::duration::zero()) {}

bool Pacer::wait(const std::atomic<bool>& stop) {
  for (Clock::time_point now = Clock::now(); now < due_ && !stop; now = Clock::now()) {
    std::this_thread::sleep_until(std::min(due_, now + kStopInterval));
    ++steps_;
  }
  due_ = std::max(due_ + period_, Clock::now());
  ++steps_;
  return !stop;
}

}  // namespace edgepipe
