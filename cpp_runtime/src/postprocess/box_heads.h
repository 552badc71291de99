// make_box_decoder: the decoder of the detection head that a bundle's manifest describes.
//
//   Result<std::unique_ptr<Decoder>> head = make_box_decoder(manifest);
//   std::span<const Detection> boxes = (*head)->decode(tensors)->detections;
#pragma once

#include <memory>

#include "edgepipe/manifest.h"
#include "edgepipe/status.h"
#include "postprocess/decoder.h"

namespace edgepipe {

/// Whether the manifest's postprocessing gives boxes.
bool gives_boxes(const Postprocess& postprocess);

/// kCorrupt names a tensor whose shape does not fit the description.
Result<std::unique_ptr<Decoder>> make_box_decoder(const Manifest& manifest);

}  // namespace edgepipe
