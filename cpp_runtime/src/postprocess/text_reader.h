// make_text_reader: the text that a network reads step by step (connectionist temporal
// classification, Graves et al. 2006).
//
//   Result<std::unique_ptr<Decoder>> reader = make_text_reader(manifest, labels);
//   const FrameResult found = *(*reader)->decode(tensors);  // found.text, found.text_score
//
// The tensor is [1, steps, characters] or [steps, 1, characters]: in each step the scores of the
// labels and of a blank. The best character of each step counts, once if it repeats without a blank
// in between. The score is the mean probability of the characters that count.
#pragma once

#include <memory>

#include "postprocess/decoder.h"

namespace edgepipe {

/// kCorrupt for a tensor of another shape than the labels need.
Result<std::unique_ptr<Decoder>> make_text_reader(const Manifest& manifest, const Labels& labels);

}  // namespace edgepipe
