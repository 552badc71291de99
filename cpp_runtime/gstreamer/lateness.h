// Lateness: which frames come too late to be shown, by what the sink reports, and counts of them.
//
//   lateness.observe(event);                      // a QOS event from downstream
//   if (lateness.is_late(running_time)) drop();   // before the frame takes a slot's time
//
// For any thread.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <cstdint>

#include "edgepipe/sync.h"

namespace edgepipe::gstreamer {

class Lateness {
 public:
  /// Remembers what the sink says about the last frame that it got.
  void observe(GstEvent* event) EDGEPIPE_EXCLUDES(mutex_);

  /// Whether a frame of this running time would be late even if it took no time from now on.
  [[nodiscard]] bool is_late(GstClockTime running_time) const EDGEPIPE_EXCLUDES(mutex_);

  /// After a flush or in a new segment, earlier reports say nothing.
  void forget() EDGEPIPE_EXCLUDES(mutex_);

  /// Counts a dropped frame and returns the message that tells the application.
  GstMessage* drop(GstObject* element, GstBuffer* buffer, const GstSegment& segment)
      EDGEPIPE_EXCLUDES(mutex_);

  void count_processed() { ++processed_; }
  [[nodiscard]] std::uint64_t processed() const { return processed_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  /// The counts of a new run.
  void reset() {
    processed_ = 0;
    dropped_ = 0;
    forget();
  }

 private:
  mutable Mutex mutex_;
  // In running time; frames up to it are late.
  GstClockTime earliest_ EDGEPIPE_GUARDED_BY(mutex_) = GST_CLOCK_TIME_NONE;
  double proportion_ EDGEPIPE_GUARDED_BY(mutex_) = 1;
  std::atomic<std::uint64_t> processed_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace edgepipe::gstreamer
