#include "postprocess/text_reader.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "postprocess/activation.h"

namespace edgepipe {
namespace {

class TextReader final : public Decoder {
 public:
  TextReader(std::size_t tensor, std::size_t steps, std::size_t blank, Activation activation,
             Labels characters)
      : Decoder({tensor}),
        steps_(steps),
        blank_(blank),
        activation_(activation),
        characters_(std::move(characters)) {
    std::size_t longest = 0;
    for (const std::string& character : characters_) longest = std::max(longest, character.size());
    text_.reserve(steps_ * longest);
  }

  Result<FrameResult> decode(Tensors tensors) override {
    text_.clear();
    double total = 0;
    std::size_t count = 0;
    std::size_t before = blank_;
    for (std::size_t step = 0; step < steps_; ++step) {
      const std::span<const float> scores =
          tensors[0].subspan(step * characters_.size(), characters_.size());
      const auto best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
      if (best != blank_ && best != before) {
        text_ += characters_[best];
        total += probability(scores, best);
        ++count;
      }
      before = best;
    }
    FrameResult result{.kind = ResultKind::kText};
    result.text = text_;
    if (count > 0) result.text_score = static_cast<float>(total / static_cast<double>(count));
    return result;
  }

 private:
  [[nodiscard]] double probability(std::span<const float> scores, std::size_t best) const {
    const auto highest = static_cast<double>(scores[best]);
    if (activation_ == Activation::kSigmoid) return 1 / (1 + std::exp(-highest));
    if (activation_ == Activation::kNone) return highest;
    double total = 0;
    for (const float score : scores) total += std::exp(static_cast<double>(score) - highest);
    return 1 / total;
  }

  std::size_t steps_;
  std::size_t blank_;
  Activation activation_;
  Labels characters_;  // the blank's is empty
  std::string text_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> make_text_reader(const Manifest& manifest, const Labels& labels) {
  const Postprocess& wanted = manifest.postprocess;
  const TensorSpec& tensor = manifest.tensors[wanted.outputs[0]];
  const std::vector<std::int64_t>& shape = tensor.shape;
  const bool is_list = shape.size() == 3 && (shape[0] == 1 || shape[1] == 1);
  if (!is_list || static_cast<std::size_t>(shape[2]) != labels.size() + 1) {
    return refused_tensor(tensor, "steps of " + std::to_string(labels.size() + 1) +
                                      " scores: one for each of the labels, and the blank's");
  }
  Labels characters = labels;
  const std::size_t blank = wanted.blank == "last" ? labels.size() : 0;
  characters.insert(characters.begin() + static_cast<std::ptrdiff_t>(blank), std::string());
  const auto steps = static_cast<std::size_t>(shape[0] * shape[1]);
  return std::unique_ptr<Decoder>(std::make_unique<TextReader>(
      wanted.outputs[0], steps, blank, activation_of(wanted.activation), std::move(characters)));
}

}  // namespace edgepipe
