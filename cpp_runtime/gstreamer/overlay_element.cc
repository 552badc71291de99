#include "overlay_element.h"

#include <gst/video/gstvideofilter.h>
#include <gst/video/video.h>

#include <array>
#include <cstdio>
#include <string>

#include "frame_results.h"
#include "media/pictures/painter.h"

struct GstEdgepipeOverlay {
  GstVideoFilter parent;
  // Guarded by the object lock.
  guint line_width;  // pixels; 0: by the picture's size
  gboolean names;
  gboolean scores;
};

struct GstEdgepipeOverlayClass {
  GstVideoFilterClass parent_class;
};

G_DEFINE_TYPE(GstEdgepipeOverlay, gst_edgepipe_overlay, GST_TYPE_VIDEO_FILTER)

namespace edgepipe::gstreamer {
namespace {

enum Property : guint { kLineWidth = 1, kNames, kScores };

constexpr guint kMostLineWidth = 64;
constexpr const char* kCaps =
    GST_VIDEO_CAPS_MAKE("{ RGB, BGR, RGBx, BGRx, xRGB, xBGR, RGBA, BGRA, ARGB, ABGR, GRAY8 }");

GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(kCaps));
GstStaticPadTemplate source_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(kCaps));

struct Style {
  int line_width;
  bool names;
  bool scores;
};

GstEdgepipeOverlay* overlay_of(gpointer object) { return static_cast<GstEdgepipeOverlay*>(object); }

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  GstEdgepipeOverlay* const overlay = overlay_of(object);
  GST_OBJECT_LOCK(object);
  switch (id) {
    case kLineWidth:
      overlay->line_width = g_value_get_uint(value);
      break;
    case kNames:
      overlay->names = g_value_get_boolean(value);
      break;
    case kScores:
      overlay->scores = g_value_get_boolean(value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(object);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  const GstEdgepipeOverlay* const overlay = overlay_of(object);
  GST_OBJECT_LOCK(object);
  switch (id) {
    case kLineWidth:
      g_value_set_uint(value, overlay->line_width);
      break;
    case kNames:
      g_value_set_boolean(value, overlay->names);
      break;
    case kScores:
      g_value_set_boolean(value, overlay->scores);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(object);
}

Canvas canvas_of(GstVideoFrame* frame) {
  const auto offset = [frame](guint component) {
    return static_cast<std::ptrdiff_t>(GST_VIDEO_FRAME_COMP_POFFSET(frame, component));
  };
  const bool grey = GST_VIDEO_INFO_IS_GRAY(&frame->info);
  // GStreamer's components 0 to 2 are red, green and blue, in whatever order they are in memory.
  return {.pixels = static_cast<std::uint8_t*>(GST_VIDEO_FRAME_PLANE_DATA(frame, 0)),
          .width = GST_VIDEO_FRAME_WIDTH(frame),
          .height = GST_VIDEO_FRAME_HEIGHT(frame),
          .row_bytes = GST_VIDEO_FRAME_PLANE_STRIDE(frame, 0),
          .pixel_bytes = GST_VIDEO_FRAME_COMP_PSTRIDE(frame, 0),
          .channels =
              grey ? std::array<std::ptrdiff_t, 3>{} : std::array{offset(0), offset(1), offset(2)},
          .grey = grey};
}

void draw_region(Painter& painter, GstVideoRegionOfInterestMeta* region, const Style& style,
                 int scale) {
  const GstStructure* const found =
      gst_video_region_of_interest_meta_get_param(region, kRegionParameters);
  int label_index = static_cast<int>(region->roi_type);
  double score = 0;
  if (found != nullptr) gst_structure_get_int(found, "label-index", &label_index);
  const bool has_score =
      found != nullptr && gst_structure_get_double(found, "score", &score) != FALSE;
  const Colour colour = class_colour(label_index);
  const auto left = static_cast<int>(region->x);
  const auto top = static_cast<int>(region->y);
  const Area area{left, top, left + static_cast<int>(region->w), top + static_cast<int>(region->h)};
  painter.outline(area, style.line_width, colour);
  std::string text;
  if (style.names) text = g_quark_to_string(region->roi_type);
  if (style.scores && has_score) {
    std::array<char, 16> digits;
    std::snprintf(digits.data(), digits.size(), "%s%.2f", text.empty() ? "" : " ", score);
    text += digits.data();
  }
  if (!text.empty()) painter.label(left, top, text, scale, colour);
}

GstFlowReturn draw(GstVideoFilter* filter, GstVideoFrame* frame) {
  const DrawingSizes sizes =
      drawing_sizes(GST_VIDEO_FRAME_WIDTH(frame), GST_VIDEO_FRAME_HEIGHT(frame));
  GST_OBJECT_LOCK(filter);
  const GstEdgepipeOverlay* const overlay = overlay_of(filter);
  const int chosen = static_cast<int>(overlay->line_width);
  const Style style{.line_width = chosen > 0 ? chosen : sizes.line,
                    .names = overlay->names != FALSE,
                    .scores = overlay->scores != FALSE};
  GST_OBJECT_UNLOCK(filter);
  Painter painter(canvas_of(frame));
  gpointer next = nullptr;
  while (GstMeta* const meta = gst_buffer_iterate_meta_filtered(
             frame->buffer, &next, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)) {
    auto* const region = static_cast<GstVideoRegionOfInterestMeta*>(static_cast<gpointer>(meta));
    draw_region(painter, region, style, sizes.letter);
  }
  return GST_FLOW_OK;
}

}  // namespace
}  // namespace edgepipe::gstreamer

static void gst_edgepipe_overlay_class_init(GstEdgepipeOverlayClass* overlay_class) {
  using namespace edgepipe::gstreamer;
  auto* const object_class = G_OBJECT_CLASS(overlay_class);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  constexpr auto kFlags =
      static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                               GST_PARAM_MUTABLE_PLAYING | GST_PARAM_CONTROLLABLE);
  g_object_class_install_property(
      object_class, kLineWidth,
      g_param_spec_uint("line-width", "Line width",
                        "Width of a box's line in pixels; 0: a 300th of the picture's shorter side",
                        0, kMostLineWidth, 0, kFlags));
  g_object_class_install_property(
      object_class, kNames,
      g_param_spec_boolean("names", "Names", "Write the class above each box", TRUE, kFlags));
  g_object_class_install_property(
      object_class, kScores,
      g_param_spec_boolean("scores", "Scores", "Write the score behind the class", TRUE, kFlags));
  auto* const gst_class = GST_ELEMENT_CLASS(overlay_class);
  gst_element_class_add_static_pad_template(gst_class, &sink_template);
  gst_element_class_add_static_pad_template(gst_class, &source_template);
  gst_element_class_set_static_metadata(
      gst_class, "edgepipe overlay", "Filter/Editor/Video",
      "Draws the regions of interest that the element edgepipe, or another one, has put on a "
      "frame: "
      "a box in the colour of its class, with the class and the score",
      "edgepipe");
  GST_VIDEO_FILTER_CLASS(overlay_class)->transform_frame_ip = draw;
}

static void gst_edgepipe_overlay_init(GstEdgepipeOverlay* overlay) {
  overlay->line_width = 0;
  overlay->names = TRUE;
  overlay->scores = TRUE;
}
