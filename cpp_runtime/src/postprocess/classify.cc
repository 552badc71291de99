#include "postprocess/classify.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace edgepipe {
namespace {

class Classifier final : public Decoder {
 public:
  Classifier(std::size_t tensor, Activation activation, std::size_t top)
      : Decoder({tensor}), activation_(activation), best_(top) {}

  Result<FrameResult> decode(Tensors tensors) override {
    top_classes(tensors[0], activation_, best_);
    FrameResult result{.kind = ResultKind::kClasses};
    result.classes = best_;
    return result;
  }

 private:
  Activation activation_;
  std::vector<ClassScore> best_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> make_classifier(const Manifest& manifest,
                                                 const Labels& /*labels*/) {
  const Postprocess& wanted = manifest.postprocess;
  const std::size_t tensor = manifest.outputs[0];
  const std::size_t classes = manifest.tensors[tensor].bytes / sizeof(float);
  return std::unique_ptr<Decoder>(
      std::make_unique<Classifier>(tensor, activation_of(wanted.activation),
                                   std::min(classes, static_cast<std::size_t>(wanted.top))));
}

void top_classes(std::span<const float> scores, Activation activation, std::span<ClassScore> best) {
  // Insertion into a short sorted list: no copy of the scores, and k is about 5.
  std::size_t filled = 0;
  for (std::size_t index = 0; index < scores.size(); ++index) {
    std::size_t place = filled;
    while (place > 0 && best[place - 1].score < scores[index]) --place;
    if (place == best.size()) continue;
    filled = std::min(filled + 1, best.size());
    std::shift_right(best.begin() + static_cast<std::ptrdiff_t>(place),
                     best.begin() + static_cast<std::ptrdiff_t>(filled), 1);
    best[place] = {.label_index = static_cast<int>(index), .score = scores[index]};
  }
  if (activation != Activation::kSoftmax) {
    for (ClassScore& entry : best.first(filled)) {
      const auto score = static_cast<double>(entry.score);
      entry.probability = activation == Activation::kSigmoid
                              ? static_cast<float>(1 / (1 + std::exp(-score)))
                              : entry.score;
    }
    return;
  }
  if (filled == 0) return;
  double total = 0;
  for (const float score : scores) total += std::exp(static_cast<double>(score - best[0].score));
  for (ClassScore& entry : best.first(filled)) {
    entry.probability =
        static_cast<float>(std::exp(static_cast<double>(entry.score - best[0].score)) / total);
  }
}

}  // namespace edgepipe
