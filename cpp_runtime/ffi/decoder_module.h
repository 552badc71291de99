// open_decoder: a bundle's postprocessing for tensors that no pipeline computed.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <string>

namespace edgepipe::binding {

/// Opens a decoder from JSON:
///
///   width, height      of the network's input, in pixels
///   tensors            [{"name": ..., "shape": [...]}, ...], all of them float32 outputs
///   postprocess        as in a bundle's manifest
///   labels             names of classes, or characters
///   most_boxes, most_candidates
///                      how many boxes are kept, and how many of the best enter suppression
///
/// Its functions, for one thread at a time:
///
///   decode(array...) -> bytes   one array for each tensor, in their order; see result_bytes.h
tvm::ffi::Module open_decoder(const std::string& description);

}  // namespace edgepipe::binding
