// make_box_decoder: the decoder of the detection head that a bundle's manifest describes.
//
//   Result<BoxHead> head = make_box_decoder(manifest);
//   head->tensors;  // indices into Manifest::tensors of what decode() takes
#pragma once

#include <cstddef>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/status.h"
#include "postprocess/box_decoder.h"

namespace edgepipe {

struct BoxHead {
  BoxDecoder decoder;
  std::vector<std::size_t> tensors;
};

/// Whether the manifest's postprocessing gives boxes.
bool gives_boxes(const Postprocess& postprocess);

/// kCorrupt names a tensor whose shape does not fit the description.
Result<BoxHead> make_box_decoder(const Manifest& manifest);

}  // namespace edgepipe
