#include "lateness.h"

namespace edgepipe::gstreamer {

void Lateness::observe(GstEvent* event) {
  double proportion = 1;
  GstClockTimeDiff difference = 0;
  GstClockTime timestamp = GST_CLOCK_TIME_NONE;
  gst_event_parse_qos(event, nullptr, &proportion, &difference, &timestamp);
  MutexLock lock(mutex_);
  proportion_ = proportion;
  if (!GST_CLOCK_TIME_IS_VALID(timestamp)) {
    earliest_ = GST_CLOCK_TIME_NONE;
  } else if (difference < 0 && timestamp < static_cast<GstClockTime>(-difference)) {
    earliest_ = 0;
  } else {
    earliest_ = timestamp + static_cast<GstClockTime>(difference);  // a negative one wraps around
  }
}

bool Lateness::is_late(GstClockTime running_time) const {
  MutexLock lock(mutex_);
  return GST_CLOCK_TIME_IS_VALID(running_time) && GST_CLOCK_TIME_IS_VALID(earliest_) &&
         running_time <= earliest_;
}

void Lateness::forget() {
  MutexLock lock(mutex_);
  earliest_ = GST_CLOCK_TIME_NONE;
  proportion_ = 1;
}

GstMessage* Lateness::drop(GstObject* element, GstBuffer* buffer, const GstSegment& segment) {
  const GstClockTime timestamp = GST_BUFFER_PTS(buffer);
  const GstClockTime running = gst_segment_to_running_time(&segment, GST_FORMAT_TIME, timestamp);
  const GstClockTime stream = gst_segment_to_stream_time(&segment, GST_FORMAT_TIME, timestamp);
  const std::uint64_t dropped = ++dropped_;
  constexpr int kFullQuality = 1'000'000;
  MutexLock lock(mutex_);
  GstMessage* const message =
      gst_message_new_qos(element, FALSE, running, stream, timestamp, GST_BUFFER_DURATION(buffer));
  gst_message_set_qos_values(message, GST_CLOCK_DIFF(running, earliest_), proportion_,
                             kFullQuality);
  gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, processed_, dropped);
  return message;
}

}  // namespace edgepipe::gstreamer
