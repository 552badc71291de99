// A GstHarness around one of the plug-in's elements, with a bus that keeps its messages.
#pragma once

#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/gstvideometa.h>

#include <memory>
#include <string>
#include <vector>

namespace edgepipe::testing {

struct DropHarness {
  void operator()(GstHarness* harness) const { gst_harness_teardown(harness); }
};
struct DropMessage {
  void operator()(GstMessage* message) const { gst_message_unref(message); }
};
struct DropBuffer {
  void operator()(GstBuffer* buffer) const { gst_buffer_unref(buffer); }
};
struct DropEvent {
  void operator()(GstEvent* event) const { gst_event_unref(event); }
};
struct DropObject {
  void operator()(gpointer object) const { gst_object_unref(object); }
};

using HarnessPointer = std::unique_ptr<GstHarness, DropHarness>;
using MessagePointer = std::unique_ptr<GstMessage, DropMessage>;
using BufferPointer = std::unique_ptr<GstBuffer, DropBuffer>;
using EventPointer = std::unique_ptr<GstEvent, DropEvent>;
using BusPointer = std::unique_ptr<GstBus, DropObject>;
using ElementPointer = std::unique_ptr<GstElement, DropObject>;

/// The messages of one type that wait on a bus; the others are dropped.
inline std::vector<MessagePointer> messages(GstBus* bus, GstMessageType type) {
  std::vector<MessagePointer> found;
  while (GstMessage* const message = gst_bus_pop_filtered(bus, type)) found.emplace_back(message);
  return found;
}

/// The text of an error message.
inline std::string error_text(GstMessage* message) {
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  std::string text = error->message;
  g_error_free(error);
  return text;
}

/// A region of interest of a buffer as text: "cat 2,1 3x4 0.75".
inline std::vector<std::string> regions(GstBuffer* buffer) {
  std::vector<std::string> found;
  gpointer next = nullptr;
  while (GstMeta* const meta = gst_buffer_iterate_meta_filtered(
             buffer, &next, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)) {
    auto* const region = static_cast<GstVideoRegionOfInterestMeta*>(static_cast<gpointer>(meta));
    double score = -1;
    gst_structure_get_double(gst_video_region_of_interest_meta_get_param(region, "edgepipe"),
                             "score", &score);
    const auto text = [](guint value) { return std::to_string(value); };
    found.push_back(std::string(g_quark_to_string(region->roi_type)) + " " + text(region->x) + "," +
                    text(region->y) + " " + text(region->w) + "x" + text(region->h) + " " +
                    std::to_string(score).substr(0, 4));
  }
  return found;
}

}  // namespace edgepipe::testing
