// What a frame shows, as GStreamer carries it: regions on the buffer and a message on the bus.
//
//   add_regions(buffer, postprocessor, seen, placement);
//   gst_element_post_message(element, result_message(element, times, line, number));
#pragma once

#include <gst/gst.h>

#include <cstdint>
#include <string>

#include "edgepipe/manifest.h"
#include "edgepipe/postprocess.h"

namespace edgepipe::gstreamer {

/// The name of a region's parameters, and of the message on the bus.
inline constexpr const char* kRegionParameters = "edgepipe";
inline constexpr const char* kResultMessage = "edgepipe-result";

/// When a frame is shown; GST_CLOCK_TIME_NONE if unknown.
struct FrameTimes {
  GstClockTime timestamp = GST_CLOCK_TIME_NONE;
  GstClockTime duration = GST_CLOCK_TIME_NONE;
  GstClockTime running = GST_CLOCK_TIME_NONE;
  GstClockTime stream = GST_CLOCK_TIME_NONE;
};

/// Adds a GstVideoRegionOfInterestMeta for each box, or one of the whole picture for the best class
/// or a text, so that what follows finds all of them in the same way. `result` is in pixels of the
/// picture. Requires a writable buffer.
void add_regions(GstBuffer* buffer, const Postprocessor& postprocessor, const FrameResult& result,
                 const Placement& placement);

/// The message about frame `number`; `line` is its line of JSON.
GstMessage* result_message(GstElement* element, const FrameTimes& times, const std::string& line,
                           std::uint64_t number);

}  // namespace edgepipe::gstreamer
