// The element `edgepipeoverlay`: draws the regions of interest on a frame, with names and scores.
//
//   gst_edgepipe_overlay_get_type();  // registered by the plug-in
//
// It draws the regions of any element, not just those of `edgepipe`, whose scores it knows.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

GType gst_edgepipe_overlay_get_type(void);

G_END_DECLS
