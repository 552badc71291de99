#include "frame_results.h"

#include <gst/video/gstvideometa.h>

#include <algorithm>
#include <cmath>

namespace edgepipe::gstreamer {
namespace {

/// A side of a region in whole pixels: both ends rounded, and at least one pixel.
struct Side {
  guint start;
  guint length;
};

Side whole_pixels(float from, float to, int size) {
  const long start = std::clamp(std::lround(from), 0L, static_cast<long>(size) - 1);
  const long end = std::clamp(std::lround(to), start + 1, static_cast<long>(size));
  return {.start = static_cast<guint>(start), .length = static_cast<guint>(end - start)};
}

GstVideoRegionOfInterestMeta* add_region(GstBuffer* buffer, const std::string& type,
                                         const Detection& box, const Placement& placement) {
  const Side across = whole_pixels(box.left, box.right, placement.width);
  const Side down = whole_pixels(box.top, box.bottom, placement.height);
  GstVideoRegionOfInterestMeta* const region = gst_buffer_add_video_region_of_interest_meta(
      buffer, type.c_str(), across.start, down.start, across.length, down.length);
  // GStreamer's own fields are whole pixels; the exact corners are beside the score.
  gst_video_region_of_interest_meta_add_param(
      region,
      gst_structure_new(kRegionParameters, "score", G_TYPE_DOUBLE, double{box.score}, "label-index",
                        G_TYPE_INT, box.label_index, "left", G_TYPE_DOUBLE, double{box.left}, "top",
                        G_TYPE_DOUBLE, double{box.top}, "right", G_TYPE_DOUBLE, double{box.right},
                        "bottom", G_TYPE_DOUBLE, double{box.bottom}, nullptr));
  return region;
}

}  // namespace

void add_regions(GstBuffer* buffer, const Postprocessor& postprocessor, const FrameResult& result,
                 const Placement& placement) {
  gint number = 0;
  for (const Detection& box : result.detections) {
    add_region(buffer, postprocessor.label(box.label_index), box, placement)->id = number++;
  }
  Detection whole{.right = static_cast<float>(placement.width),
                  .bottom = static_cast<float>(placement.height)};
  if (!result.classes.empty()) {
    const ClassScore& best = result.classes.front();
    whole.score = best.probability;
    whole.label_index = best.label_index;
    add_region(buffer, postprocessor.label(best.label_index), whole, placement);
  }
  if (!result.text.empty()) {
    whole.score = result.text_score;
    add_region(buffer, std::string(result.text), whole, placement);
  }
}

GstMessage* result_message(GstElement* element, const FrameTimes& times, const std::string& line,
                           std::uint64_t number) {
  return gst_message_new_element(
      GST_OBJECT(element),
      gst_structure_new(kResultMessage, "frame", G_TYPE_UINT64, guint64{number}, "timestamp",
                        G_TYPE_UINT64, times.timestamp, "duration", G_TYPE_UINT64, times.duration,
                        "running-time", G_TYPE_UINT64, times.running, "stream-time", G_TYPE_UINT64,
                        times.stream, "json", G_TYPE_STRING, line.c_str(), nullptr));
}

}  // namespace edgepipe::gstreamer
