// The element `edgepipe`: runs a bundle on video frames, which pass through with their results.
//
//   gst_edgepipe_get_type();  // registered by the plug-in
//
// The bundle is opened in the change from NULL to READY, and again before the next frames if a
// property has changed since. A pipeline of GStreamer that goes back to READY keeps it open.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

GType gst_edgepipe_get_type(void);

G_END_DECLS
