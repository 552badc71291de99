#include "inference_element.h"

#include <gst/video/video.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "frame_flow.h"
#include "lateness.h"
#include "owned.h"

namespace edgepipe::gstreamer {
namespace {

/// What an element has besides its GObject, which C code allocates and knows nothing of C++.
struct ElementState {
  GstPad* sink = nullptr;    // owned by the element
  GstPad* source = nullptr;  // the same
  Lateness lateness;
  GstVideoInfo info = {};  // of the sink pad's thread
  GstSegment segment = {};
  bool has_caps = false;

  // Guarded by the element's object lock.
  Settings settings;
  bool drops_late = true;
  bool posts_results = true;
  bool changed = false;             // settings differ from those of `flow`
  std::shared_ptr<FrameFlow> flow;  // null in the state NULL
};

}  // namespace
}  // namespace edgepipe::gstreamer

struct GstEdgepipe {
  GstElement parent;
  edgepipe::gstreamer::ElementState* state;
};

struct GstEdgepipeClass {
  GstElementClass parent_class;
};

G_DEFINE_TYPE(GstEdgepipe, gst_edgepipe, GST_TYPE_ELEMENT)

namespace edgepipe::gstreamer {
namespace {

enum Property : guint {
  kBundle = 1,
  kDevice,
  kSlots,
  kScore,
  kLabels,
  kPolicy,
  kQos,
  kMessages,
  kProcessed,
  kDropped,
};

constexpr guint kMostSlots = 1024;
constexpr const char* kCaps = GST_VIDEO_CAPS_MAKE("{ RGB, BGR, GRAY8 }");

GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(kCaps));
GstStaticPadTemplate source_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(kCaps));

ElementState& state_of(gpointer element) { return *static_cast<GstEdgepipe*>(element)->state; }

/// The open bundle, or null. It stays valid while it is held, whatever state the element goes to.
std::shared_ptr<FrameFlow> flow_of(gpointer element) {
  GST_OBJECT_LOCK(element);
  std::shared_ptr<FrameFlow> flow = state_of(element).flow;
  GST_OBJECT_UNLOCK(element);
  return flow;
}

// ---- properties

std::string text_of(const GValue* value) {
  const gchar* const text = g_value_get_string(value);
  return text == nullptr ? "" : text;
}

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  ElementState& state = state_of(object);
  GST_OBJECT_LOCK(object);
  Settings& settings = state.settings;
  state.changed = state.changed || (id != kQos && id != kMessages);
  switch (id) {
    case kBundle:
      settings.bundle = text_of(value);
      break;
    case kDevice:
      settings.device = text_of(value);
      break;
    case kSlots:
      settings.slots = g_value_get_uint(value);
      break;
    case kScore:
      settings.score = g_value_get_double(value);
      break;
    case kLabels:
      settings.labels = text_of(value);
      break;
    case kPolicy:
      settings.policy = text_of(value);
      break;
    case kQos:
      state.drops_late = g_value_get_boolean(value) != FALSE;
      if (state.flow) state.flow->drop_late(state.drops_late);
      break;
    case kMessages:
      state.posts_results = g_value_get_boolean(value) != FALSE;
      if (state.flow) state.flow->post_results(state.posts_results);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(object);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  const ElementState& state = state_of(object);
  GST_OBJECT_LOCK(object);
  const Settings& settings = state.settings;
  switch (id) {
    case kBundle:
      g_value_set_string(value, settings.bundle.c_str());
      break;
    case kDevice:
      g_value_set_string(value, settings.device.c_str());
      break;
    case kSlots:
      g_value_set_uint(value, settings.slots);
      break;
    case kScore:
      g_value_set_double(value, settings.score);
      break;
    case kLabels:
      g_value_set_string(value, settings.labels.c_str());
      break;
    case kPolicy:
      g_value_set_string(value, settings.policy.c_str());
      break;
    case kQos:
      g_value_set_boolean(value, state.drops_late ? TRUE : FALSE);
      break;
    case kMessages:
      g_value_set_boolean(value, state.posts_results ? TRUE : FALSE);
      break;
    case kProcessed:
      g_value_set_uint64(value, state.lateness.processed());
      break;
    case kDropped:
      g_value_set_uint64(value, state.lateness.dropped());
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(object);
}

void install_properties(GObjectClass* object_class) {
  constexpr auto kText = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                                  GST_PARAM_MUTABLE_READY);
  constexpr auto kSwitch = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                                    GST_PARAM_MUTABLE_PLAYING);
  constexpr auto kCount = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  const auto text = [&](guint id, const char* name, const char* nick, const char* blurb,
                        const char* value) {
    g_object_class_install_property(object_class, id,
                                    g_param_spec_string(name, nick, blurb, value, kText));
  };
  text(kBundle, "bundle", "Bundle",
       "Path of the compiled network: an archive or a folder that `edgepipe build` wrote. Required",
       "");
  text(kDevice, "device", "Device",
       "What runs the accelerator's stages: auto (the accelerator of this machine, or the "
       "simulator if there is none), uio, uio:1 for the second accelerator, uio:0+1 for both in "
       "turn, simulator, or another kind of device, which the error for an unknown one lists",
       "auto");
  text(kLabels, "labels", "Labels",
       "Leave out all other classes than these, e.g. person,car. Empty: none", "");
  text(kPolicy, "policy", "Policy",
       "File that says which bundles to accept. Empty: /etc/edgepipe/policy, or all without one",
       "");
  g_object_class_install_property(
      object_class, kSlots,
      g_param_spec_uint(
          "slots", "Slots",
          "Frames in flight, at whose stages CPU and FPGA work at the same time. With "
          "fewer, results are newer; with more, a stage waits less for the others. 0: "
          "the bundle's setting for cameras",
          0, kMostSlots, 0, kText));
  g_object_class_install_property(
      object_class, kScore,
      g_param_spec_double(
          "score", "Score",
          "Leave out boxes with a score below this, or classes with a probability "
          "below it. It cannot bring back what the bundle's own threshold leaves out",
          0, 1, 0, kText));
  g_object_class_install_property(
      object_class, kQos,
      g_param_spec_boolean("qos", "Quality of service",
                           "Drop frames that the sink would not show because they are late. They "
                           "are counted in `dropped` and reported in QOS messages",
                           TRUE, kSwitch));
  g_object_class_install_property(
      object_class, kMessages,
      g_param_spec_boolean(
          "messages", "Messages",
          "Post a message `edgepipe-result` for each frame, with its times and its "
          "results as a line of JSON like that of edgepipe-run",
          TRUE, kSwitch));
  g_object_class_install_property(
      object_class, kProcessed,
      g_param_spec_uint64("processed", "Processed",
                          "Frames that left with results since the element was last in READY", 0,
                          G_MAXUINT64, 0, kCount));
  g_object_class_install_property(
      object_class, kDropped,
      g_param_spec_uint64("dropped", "Dropped",
                          "Late frames that were dropped since the element was last in READY", 0,
                          G_MAXUINT64, 0, kCount));
}

// ---- the sink pad

/// The pads' caps, the network's own format first, so that the elements before this one convert as
/// little as possible. The stages convert the others.
CapsPointer caps_for(const FrameFlow* flow) {
  CapsPointer caps(gst_caps_from_string(kCaps));
  if (flow == nullptr) return caps;
  const std::string own = flow->order() == "GRAY" ? "GRAY8" : flow->order();
  CapsPointer preferred(gst_caps_copy(caps.get()));
  gst_caps_set_simple(preferred.get(), "format", G_TYPE_STRING, own.c_str(), nullptr);
  return CapsPointer(gst_caps_merge(preferred.release(), caps.release()));
}

/// Frames leave in the format in which they come, so it must suit the next element, too.
void answer_caps(ElementState& state, const FrameFlow* flow, GstQuery* query) {
  GstCaps* filter = nullptr;
  gst_query_parse_caps(query, &filter);
  CapsPointer caps = caps_for(flow);
  if (filter != nullptr) {
    caps.reset(gst_caps_intersect_full(caps.get(), filter, GST_CAPS_INTERSECT_FIRST));
  }
  const CapsPointer next(gst_pad_peer_query_caps(state.source, caps.get()));
  if (next) caps.reset(gst_caps_intersect_full(caps.get(), next.get(), GST_CAPS_INTERSECT_FIRST));
  gst_query_set_caps_result(query, caps.get());
}

/// The elements before this one need as many buffers more as the slots can hold.
void add_buffers(FrameFlow& flow, const ElementState& state, GstQuery* query) {
  const guint more = flow.slots() + 1;
  if (gst_query_get_n_allocation_pools(query) == 0) {
    const auto bytes = static_cast<guint>(GST_VIDEO_INFO_SIZE(&state.info));
    gst_query_add_allocation_pool(query, nullptr, state.has_caps ? bytes : 0, more, 0);
    return;
  }
  GstBufferPool* pool = nullptr;
  guint bytes = 0;
  guint least = 0;
  guint most = 0;
  gst_query_parse_nth_allocation_pool(query, 0, &pool, &bytes, &least, &most);
  gst_query_set_nth_allocation_pool(query, 0, pool, bytes, least + more,
                                    most == 0 ? 0 : most + more);
  if (pool != nullptr) gst_object_unref(pool);
}

gboolean sink_query(GstPad* pad, GstObject* parent, GstQuery* query) {
  ElementState& state = state_of(parent);
  const std::shared_ptr<FrameFlow> flow = flow_of(parent);
  if (GST_QUERY_TYPE(query) == GST_QUERY_CAPS) {
    answer_caps(state, flow.get(), query);
    return TRUE;
  }
  // GST_QUERY_IS_SERIALIZED mixes two enumerations, against which clang warns.
  if ((gst_query_type_get_flags(GST_QUERY_TYPE(query)) & GST_QUERY_TYPE_SERIALIZED) == 0) {
    return gst_pad_query_default(pad, parent, query);
  }
  // What is before the query is pushed first: the next element answers for its new caps.
  if (!flow || !flow->wait_until_empty()) return FALSE;
  const bool answered = gst_pad_peer_query(state.source, query) != FALSE;
  if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return answered ? TRUE : FALSE;
  add_buffers(*flow, state, query);
  return TRUE;
}

GstFlowReturn chain(GstPad* /*pad*/, GstObject* parent, GstBuffer* taken) {
  BufferPointer buffer(taken);
  const ElementState& state = state_of(parent);
  if (!state.has_caps) return GST_FLOW_NOT_NEGOTIATED;
  try {
    return flow_of(parent)->take(std::move(buffer), state.info, state.segment);
  } catch (const std::bad_alloc&) {
    post_error(GST_ELEMENT(parent), out_of_memory());
    return GST_FLOW_ERROR;
  }
}

bool use_caps(GstElement* element, ElementState& state, GstEvent* event) {
  GstCaps* caps = nullptr;
  gst_event_parse_caps(event, &caps);
  state.has_caps = gst_video_info_from_caps(&state.info, caps) != FALSE;
  if (!state.has_caps) return false;
  const Status status = check_size(GST_VIDEO_INFO_WIDTH(&state.info),
                                   GST_VIDEO_INFO_HEIGHT(&state.info), kMostPixels);
  if (status.ok()) return true;
  state.has_caps = false;
  post_error(element, status.with_context("the video"));
  return false;
}

void start_task(GstPad* source) {
  gst_pad_start_task(
      source,
      [](gpointer pad) {
        GstObject* const element = gst_pad_get_parent(static_cast<GstPad*>(pad));
        if (element == nullptr) return;
        flow_of(element)->deliver_next();
        gst_object_unref(element);
      },
      source, nullptr);
}

/// Lets frames in again after a flush or after the end of what follows.
bool restart(GstElement* element, ElementState& state, FrameFlow& flow) {
  gst_pad_stop_task(state.source);  // waits for its thread
  state.lateness.forget();
  const Status status = flow.resume();
  if (!status.ok()) {
    post_error(element, status);
    return false;
  }
  // A change of state may have come in between; its pads have no task.
  if (gst_pad_is_active(state.source) != FALSE) start_task(state.source);
  return true;
}

gboolean sink_event(GstPad* pad, GstObject* parent, GstEvent* taken) {
  EventPointer event(taken);
  ElementState& state = state_of(parent);
  const std::shared_ptr<FrameFlow> flow = flow_of(parent);
  const GstEventType type = GST_EVENT_TYPE(event.get());
  if (!flow || (gst_event_type_get_flags(type) & GST_EVENT_TYPE_SERIALIZED) == 0) {
    if (flow && type == GST_EVENT_FLUSH_START) {
      const gboolean sent = gst_pad_push_event(state.source, event.release());
      flow->halt(GST_FLOW_FLUSHING);
      gst_pad_pause_task(state.source);
      return sent;
    }
    return gst_pad_event_default(pad, parent, event.release());
  }
  if (type == GST_EVENT_FLUSH_STOP) {
    gst_segment_init(&state.segment, GST_FORMAT_UNDEFINED);
    // Its own event first: the task must not push into pads that still flush.
    gst_pad_stop_task(state.source);
    const gboolean sent = gst_pad_push_event(state.source, event.release());
    return restart(GST_ELEMENT(parent), state, *flow) ? sent : FALSE;
  }
  if (type == GST_EVENT_CAPS && !use_caps(GST_ELEMENT(parent), state, event.get())) return FALSE;
  if (type == GST_EVENT_SEGMENT) {
    gst_event_copy_segment(event.get(), &state.segment);
    state.lateness.forget();
  }
  const bool begins_anew = type == GST_EVENT_STREAM_START || type == GST_EVENT_SEGMENT;
  if (begins_anew && flow->has_ended() && !restart(GST_ELEMENT(parent), state, *flow)) return FALSE;
  return flow->enqueue(std::move(event)) ? TRUE : FALSE;
}

gboolean activate_sink(GstPad* /*pad*/, GstObject* parent, GstPadMode mode, gboolean active) {
  if (mode != GST_PAD_MODE_PUSH) return FALSE;
  const std::shared_ptr<FrameFlow> flow = flow_of(parent);
  if (active == FALSE && flow) flow->halt(GST_FLOW_FLUSHING);
  return TRUE;
}

// ---- the source pad

gboolean source_query(GstPad* pad, GstObject* parent, GstQuery* query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY) return gst_pad_query_default(pad, parent, query);
  if (gst_pad_peer_query(state_of(parent).sink, query) == FALSE) return FALSE;
  const std::shared_ptr<FrameFlow> flow = flow_of(parent);
  gboolean live = FALSE;
  GstClockTime least = 0;
  GstClockTime most = GST_CLOCK_TIME_NONE;
  gst_query_parse_latency(query, &live, &least, &most);
  const GstClockTime own = flow ? flow->latency() : 0;
  gst_query_set_latency(query, live, least + own,
                        GST_CLOCK_TIME_IS_VALID(most) ? most + own : GST_CLOCK_TIME_NONE);
  return TRUE;
}

gboolean source_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_QOS) state_of(parent).lateness.observe(event);
  return gst_pad_event_default(pad, parent, event);
}

gboolean activate_source(GstPad* pad, GstObject* parent, GstPadMode mode, gboolean active) {
  if (mode != GST_PAD_MODE_PUSH) return FALSE;
  const std::shared_ptr<FrameFlow> flow = flow_of(parent);
  if (!flow) return active == FALSE ? TRUE : FALSE;
  if (active != FALSE) {
    start_task(pad);
    return TRUE;
  }
  flow->halt(GST_FLOW_FLUSHING);
  return gst_pad_stop_task(pad);
}

// ---- states

/// Opens the bundle with the present settings. False after it has posted why it cannot.
bool open_flow(GstElement* element) {
  ElementState& state = state_of(element);
  GST_OBJECT_LOCK(element);
  const Settings settings = state.settings;
  state.changed = false;
  state.flow.reset();
  GST_OBJECT_UNLOCK(element);
  Result<std::unique_ptr<FrameFlow>> opened = or_out_of_memory([&] {
    return FrameFlow::open(
        {.element = element, .source = state.source, .lateness = &state.lateness}, settings);
  });
  if (!opened.ok()) {
    post_error(element, opened.status());
    return false;
  }
  GST_OBJECT_LOCK(element);
  state.flow = *std::move(opened);
  state.flow->drop_late(state.drops_late);
  state.flow->post_results(state.posts_results);
  GST_OBJECT_UNLOCK(element);
  return true;
}

bool has_changed(GstElement* element) {
  GST_OBJECT_LOCK(element);
  const bool changed = state_of(element).changed;
  GST_OBJECT_UNLOCK(element);
  return changed;
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange change) {
  ElementState& state = state_of(element);
  if (change == GST_STATE_CHANGE_NULL_TO_READY && !open_flow(element)) {
    return GST_STATE_CHANGE_FAILURE;
  }
  if (change == GST_STATE_CHANGE_READY_TO_PAUSED) {
    if (has_changed(element) && !open_flow(element)) return GST_STATE_CHANGE_FAILURE;
    state.lateness.reset();
    state.has_caps = false;
    gst_segment_init(&state.segment, GST_FORMAT_UNDEFINED);
  }
  const GstStateChangeReturn changed =
      GST_ELEMENT_CLASS(gst_edgepipe_parent_class)->change_state(element, change);
  const std::shared_ptr<FrameFlow> flow = flow_of(element);
  if (change == GST_STATE_CHANGE_PAUSED_TO_READY && flow) {
    // The pads are inactive, so no thread is in the flow.
    if (const Status status = flow->resume(); !status.ok()) {
      post_error(element, status);
      return GST_STATE_CHANGE_FAILURE;
    }
  }
  if (change == GST_STATE_CHANGE_READY_TO_NULL) {
    GST_OBJECT_LOCK(element);
    std::shared_ptr<FrameFlow> last = std::move(state.flow);
    GST_OBJECT_UNLOCK(element);
    last.reset();  // ends its threads, without the lock
  }
  return changed;
}

void finalize(GObject* object) {
  delete static_cast<GstEdgepipe*>(static_cast<gpointer>(object))->state;
  G_OBJECT_CLASS(gst_edgepipe_parent_class)->finalize(object);
}

}  // namespace
}  // namespace edgepipe::gstreamer

static void gst_edgepipe_class_init(GstEdgepipeClass* element_class) {
  using namespace edgepipe::gstreamer;
  auto* const object_class = G_OBJECT_CLASS(element_class);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = finalize;
  install_properties(object_class);
  auto* const gst_class = GST_ELEMENT_CLASS(element_class);
  gst_class->change_state = change_state;
  gst_element_class_add_static_pad_template(gst_class, &sink_template);
  gst_element_class_add_static_pad_template(gst_class, &source_template);
  gst_element_class_set_static_metadata(
      gst_class, "edgepipe", "Filter/Analyzer/Video",
      "Runs a neural network that `edgepipe build` compiled, on the CPU and the VTA accelerator. "
      "Frames pass through unchanged, with a region of interest for each box or for the best "
      "class, "
      "and a message edgepipe-result on the bus",
      "edgepipe");
}

static void gst_edgepipe_init(GstEdgepipe* element) {
  using namespace edgepipe::gstreamer;
  element->state = new ElementState;
  ElementState& state = *element->state;
  state.sink = gst_pad_new_from_static_template(&sink_template, "sink");
  gst_pad_set_chain_function(state.sink, chain);
  gst_pad_set_event_function(state.sink, sink_event);
  gst_pad_set_query_function(state.sink, sink_query);
  gst_pad_set_activatemode_function(state.sink, activate_sink);
  gst_element_add_pad(GST_ELEMENT(element), state.sink);
  state.source = gst_pad_new_from_static_template(&source_template, "src");
  gst_pad_set_event_function(state.source, source_event);
  gst_pad_set_query_function(state.source, source_query);
  gst_pad_set_activatemode_function(state.source, activate_source);
  GST_PAD_SET_PROXY_CAPS(state.source);
  gst_element_add_pad(GST_ELEMENT(element), state.source);
}
