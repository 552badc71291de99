// Pacer: limits a loop to a given rate.
#pragma once

#include <atomic>
#include <cstdint>

#include "edgepipe/picture_source.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class Pacer {
 public:
  explicit Pacer(const Pace& pace);

  /// Blocks until the next picture is due; false once `stop` is set. A late caller does
  /// not catch up.
  bool wait(const std::atomic<bool>& stop);

  /// Increases with every wait, and ten times a second during a wait. For any thread.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  Clock::duration period_;
  Clock::time_point due_{};
  std::atomic<std::uint64_t> steps_{0};
};

}  // namespace edgepipe
