// Pacer: limits a loop to a given rate.
#pragma once

#include <atomic>

#include "edgepipe/picture_source.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class Pacer {
 public:
  explicit Pacer(const Pace& pace);

  /// Blocks until the next picture is due; false once `stop` is set. A late caller does
  /// not catch up.
  bool wait(const std::atomic<bool>& stop);

 private:
  Clock::duration period_;
  Clock::time_point due_{};
};

}  // namespace edgepipe
