// make_text_finder: where text is, from a map that says of each cell how surely it belongs to text
// (differentiable binarization, Liao et al. 2020).
//
//   Result<std::unique_ptr<Decoder>> finder = make_text_finder(manifest, labels);
//   const FrameResult found = *(*finder)->decode(tensors);  // found.points: 4 for each detection
//
// Cells of at least `map_threshold` that touch, also at a corner, are one region. Its box is the
// smallest rectangle at any angle around the centres of its cells, widened on every side by
// `unclip` times its area over its circumference, because such networks mark a shrunk text. The
// points are its corners, clockwise from the one at the top left; the detection is the upright box
// around them. The score is the mean of the region's cells.
#pragma once

#include <memory>

#include "postprocess/decoder.h"

namespace edgepipe {

/// kCorrupt for a tensor that is not a single map.
Result<std::unique_ptr<Decoder>> make_text_finder(const Manifest& manifest, const Labels& labels);

}  // namespace edgepipe
