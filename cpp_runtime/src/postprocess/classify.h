// top_classes: the best classes of one frame's scores. make_classifier: the decoder that uses it.
//
//   std::vector<ClassScore> best(5);
//   top_classes(logits, Activation::kSoftmax, best);  // best[0] is the winner
#pragma once

#include <memory>
#include <span>

#include "edgepipe/postprocess.h"
#include "postprocess/activation.h"
#include "postprocess/decoder.h"

namespace edgepipe {

/// Fills `best` with the highest-scored classes, best first, ties to the lower index. `best` is no
/// longer than `scores`. `activation` turns scores into probabilities. Allocates nothing.
void top_classes(std::span<const float> scores, Activation activation, std::span<ClassScore> best);

/// A classifier's decoder. Its manifest has exactly one output, of float32.
Result<std::unique_ptr<Decoder>> make_classifier(const Manifest& manifest, const Labels& labels);

}  // namespace edgepipe
