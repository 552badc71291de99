// Owning pointers to objects of GStreamer, which count their users.
//
//   BufferPointer buffer(taken);            // drops its reference at the end
//   gst_pad_push(pad, buffer.release());    // gives it away
#pragma once

#include <gst/gst.h>

#include <memory>

namespace edgepipe::gstreamer {

struct DropReference {
  void operator()(GstMiniObject* object) const { gst_mini_object_unref(object); }
  void operator()(GstBuffer* buffer) const { gst_buffer_unref(buffer); }
  void operator()(GstEvent* event) const { gst_event_unref(event); }
  void operator()(GstCaps* caps) const { gst_caps_unref(caps); }
};

using BufferPointer = std::unique_ptr<GstBuffer, DropReference>;
using EventPointer = std::unique_ptr<GstEvent, DropReference>;
using CapsPointer = std::unique_ptr<GstCaps, DropReference>;

}  // namespace edgepipe::gstreamer
