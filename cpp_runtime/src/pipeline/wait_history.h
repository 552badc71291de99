// WaitHistory: whether a thread's recent waits were short.
//
//   WaitHistory history(500us);
//   history.add(waited);                  // after each wait
//   if (history.all_short()) doze(); else sleep();
//
// For one thread at a time.
#pragma once

#include <algorithm>

#include "edgepipe/sync.h"

namespace edgepipe {

class WaitHistory {
 public:
  /// A wait is short if it took less than `limit`.
  explicit WaitHistory(Clock::duration limit) : limit_(limit) {}

  /// True if each of the last waits was short.
  [[nodiscard]] bool all_short() const { return short_waits_ >= kEnough; }

  void add(Clock::duration wait) {
    short_waits_ = wait < limit_ ? std::min(short_waits_ + 1, kEnough) : std::min(short_waits_, 0);
  }

  /// Records whether it was useful to rely on all_short(). After a failure, all_short() needs 8
  /// more short waits to be true again, and twice as many after each further failure, at most 1024.
  void judge(bool useful) {
    if (useful) {
      failures_ = 0;
      return;
    }
    short_waits_ = kEnough - (kEnough << failures_);
    failures_ = std::min(failures_ + 1, kMostFailures);
  }

 private:
  static constexpr int kEnough = 8;
  static constexpr int kMostFailures = 7;

  Clock::duration limit_;
  int short_waits_ = 0;  // in a row, at most kEnough; below 0: that many more are needed
  int failures_ = 0;     // in a row
};

}  // namespace edgepipe
