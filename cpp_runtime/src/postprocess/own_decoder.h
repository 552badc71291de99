// open_own_decoder: the decoder of a bundle that brings its own, as a C function in a library.
//
//   Result<std::unique_ptr<Decoder>> decoder = open_own_decoder(bundle);
//   Result<FrameResult> found = (*decoder)->decode(tensors);
//
// The bundle has a library for each architecture: decoder/ARCHITECTURE.so.
#pragma once

#include <cstddef>
#include <memory>

#include "edgepipe/bundle.h"
#include "edgepipe/decoder_function.h"
#include "edgepipe/manifest.h"
#include "edgepipe/status.h"
#include "postprocess/decoder.h"

namespace edgepipe {

/// Loads the library for this machine. kUnsupported if the bundle has none for it, kCorrupt if it
/// cannot be loaded, kNotFound if it lacks the function. Blocks, and runs the library's
/// initialisers.
Result<std::unique_ptr<Decoder>> open_own_decoder(const Bundle& bundle);

/// A decoder that calls `function`, which `library` holds. `labels` is the number of names.
std::unique_ptr<Decoder> make_own_decoder(const Manifest& manifest, std::size_t labels,
                                          EpDecoderFunction function,
                                          std::shared_ptr<const void> library = nullptr);

}  // namespace edgepipe
