#include "gstreamer_queue.h"

#include <gst/gst.h>
#include <sched.h>

#include <utility>

namespace edgepipe {

struct GstreamerQueue::Impl {
  Receive receive;
  int core;
  bool pinned = false;
  GstElement* queue = nullptr;
  GstPad* source = nullptr;  // this object's, before the queue
  GstPad* sink = nullptr;    // this object's, after the queue; its private data is this

  /// Runs on the queue's thread.
  static GstFlowReturn chain(GstPad* pad, GstObject*, GstBuffer* buffer) {
    auto& self = *static_cast<Impl*>(gst_pad_get_element_private(pad));
    const int number = static_cast<int>(GST_BUFFER_OFFSET(buffer));
    if (!std::exchange(self.pinned, true)) {
      cpu_set_t mask;
      CPU_ZERO(&mask);
      CPU_SET(static_cast<std::size_t>(self.core), &mask);
      sched_setaffinity(0, sizeof(mask), &mask);
    }
    self.receive(number);
    gst_buffer_unref(buffer);
    return GST_FLOW_OK;
  }
};

GstreamerQueue::GstreamerQueue(Receive receive, int core)
    : impl_(new Impl{.receive = std::move(receive), .core = core}) {
  gst_init(nullptr, nullptr);
  Impl& self = *impl_;
  self.queue = gst_element_factory_make("queue", nullptr);
  self.source = gst_pad_new("source", GST_PAD_SRC);
  self.sink = gst_pad_new("sink", GST_PAD_SINK);
  gst_pad_set_element_private(self.sink, impl_.get());
  gst_pad_set_chain_function(self.sink, &Impl::chain);
  GstPad* const into = gst_element_get_static_pad(self.queue, "sink");
  GstPad* const out_of = gst_element_get_static_pad(self.queue, "src");
  gst_pad_set_active(self.source, TRUE);
  gst_pad_set_active(self.sink, TRUE);
  gst_pad_link(self.source, into);
  gst_pad_link(out_of, self.sink);
  gst_object_unref(into);
  gst_object_unref(out_of);
  gst_element_set_state(self.queue, GST_STATE_PLAYING);
  gst_pad_push_event(self.source, gst_event_new_stream_start("bench"));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_BYTES);
  gst_pad_push_event(self.source, gst_event_new_segment(&segment));
}

GstreamerQueue::~GstreamerQueue() {
  gst_element_set_state(impl_->queue, GST_STATE_NULL);
  gst_object_unref(impl_->queue);
  gst_object_unref(impl_->source);
  gst_object_unref(impl_->sink);
}

void GstreamerQueue::push(int number) {
  GstBuffer* const buffer = gst_buffer_new();
  GST_BUFFER_OFFSET(buffer) = static_cast<guint64>(number);
  gst_pad_push(impl_->source, buffer);
}

}  // namespace edgepipe
