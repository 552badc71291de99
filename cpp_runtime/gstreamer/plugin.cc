// The plug-in: what GStreamer reads when it loads libgstedgepipe.so.
#include <gst/gst.h>

#include "inference_element.h"
#include "overlay_element.h"

// The oldest GStreamer that loads the plug-in, whichever it was built with.
constexpr int kMajor = 1;
constexpr int kMinor = 16;

#define PACKAGE "edgepipe"  // a name that GST_PLUGIN_DEFINE expects

static gboolean register_elements(GstPlugin* plugin) {
  const bool registered =
      gst_element_register(plugin, "edgepipe", GST_RANK_NONE, gst_edgepipe_get_type()) != FALSE &&
      gst_element_register(plugin, "edgepipeoverlay", GST_RANK_NONE,
                           gst_edgepipe_overlay_get_type()) != FALSE;
  return registered ? TRUE : FALSE;
}

GST_PLUGIN_DEFINE(kMajor, kMinor, edgepipe,
                  "Neural networks on the CPU and the VTA accelerator of FPGA SoC boards",
                  register_elements, EDGEPIPE_VERSION, "Apache 2.0", "edgepipe", "edgepipe")
