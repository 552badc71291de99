#include "postprocess/class_map.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "postprocess/activation.h"
#include "postprocess/map_layout.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostClasses = 256;  // that a byte can name

class ClassMapper final : public Decoder {
 public:
  ClassMapper(std::size_t tensor, const MapLayout& layout, float least_score)
      : Decoder({tensor}),
        layout_(layout),
        least_score_(least_score),
        classes_(layout.cells()),
        best_(layout.cells()) {}

  Result<FrameResult> decode(Tensors tensors) override {
    const std::span<const float> scores = tensors[0];
    if (layout_.values == 1) {
      for (std::size_t cell = 0; cell < classes_.size(); ++cell) {
        classes_[cell] = scores[cell] >= least_score_ ? 1 : 0;
      }
    } else if (layout_.cell_step == 1) {
      choose_by_plane(scores);
    } else {
      choose_by_cell(scores);
    }
    const auto columns = static_cast<int>(layout_.columns);
    const auto rows = static_cast<int>(layout_.rows);
    FrameResult result{.kind = ResultKind::kClassMap};
    result.map = {
        .classes = classes_, .width = columns, .height = rows, .right = columns, .bottom = rows};
    return result;
  }

 private:
  /// In the order of memory. A score that is not a number is never the highest.
  void choose_by_plane(std::span<const float> scores) {
    std::ranges::fill(classes_, std::uint8_t{0});
    std::ranges::fill(best_, -std::numeric_limits<float>::infinity());
    for (std::size_t value = 0; value < layout_.values; ++value) {
      const float* plane = scores.data() + value * layout_.value_step;
      for (std::size_t cell = 0; cell < classes_.size(); ++cell) {
        const bool higher = plane[cell] > best_[cell];
        best_[cell] = higher ? plane[cell] : best_[cell];
        classes_[cell] = higher ? static_cast<std::uint8_t>(value) : classes_[cell];
      }
    }
  }

  void choose_by_cell(std::span<const float> scores) {
    for (std::size_t cell = 0; cell < classes_.size(); ++cell) {
      const float* values = scores.data() + cell * layout_.cell_step;
      float best = -std::numeric_limits<float>::infinity();
      classes_[cell] = 0;
      for (std::size_t value = 0; value < layout_.values; ++value) {
        if (!(values[value] > best)) continue;
        best = values[value];
        classes_[cell] = static_cast<std::uint8_t>(value);
      }
    }
  }

  MapLayout layout_;
  float least_score_;
  std::vector<std::uint8_t> classes_;
  std::vector<float> best_;
};

/// The first and the end of `cells` cells over `side` pixels whose centres are among the `fitted`
/// pixels behind `before`.
std::pair<int, int> centres_within(int cells, int side, int before, int fitted) {
  const auto doubled = [&](std::int64_t cell) { return (2 * cell + 1) * side; };
  const auto bound = [&](std::int64_t pixel) { return 2 * pixel * cells; };
  int first = 0;
  while (first < cells && doubled(first) < bound(before)) ++first;
  int end = first;
  while (end < cells && doubled(end) < bound(std::int64_t{before} + fitted)) ++end;
  return {first, end};
}

}  // namespace

Result<std::unique_ptr<Decoder>> make_class_mapper(const Manifest& manifest,
                                                   const Labels& /*labels*/) {
  const Postprocess& wanted = manifest.postprocess;
  const Preprocess& input = manifest.preprocess;
  const TensorSpec& tensor = manifest.tensors[wanted.outputs[0]];
  const std::optional<MapLayout> layout = map_layout(tensor.shape, input.width, input.height);
  if (!layout || layout->values > kMostClasses) {
    return refused_tensor(tensor, "1 to " + std::to_string(kMostClasses) +
                                      " classes in rows and columns in the proportion of the "
                                      "input, " +
                                      std::to_string(input.height) + "x" +
                                      std::to_string(input.width));
  }
  const bool is_logit = activation_of(wanted.activation) == Activation::kSigmoid;
  const float least =
      is_logit ? logit(wanted.score_threshold) : static_cast<float>(wanted.score_threshold);
  return std::unique_ptr<Decoder>(std::make_unique<ClassMapper>(wanted.outputs[0], *layout, least));
}

ClassMap within_picture(ClassMap map, int width, int height, const Placement& placement) {
  std::tie(map.left, map.right) =
      centres_within(map.width, width, std::max(-placement.left, 0),
                     placement.fitted_width - std::max(placement.left, 0));
  std::tie(map.top, map.bottom) =
      centres_within(map.height, height, std::max(-placement.top, 0),
                     placement.fitted_height - std::max(placement.top, 0));
  return map;
}

}  // namespace edgepipe
