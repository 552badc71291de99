#include "postprocess/heat_maps.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "postprocess/activation.h"
#include "postprocess/map_layout.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostPoints = 4096;
constexpr double kQuarter = 0.25;  // of a cell, towards the higher neighbour

class HeatMapReader final : public Decoder {
 public:
  HeatMapReader(std::size_t tensor, const MapLayout& layout, Activation activation, int width,
                int height)
      : Decoder({tensor}, 0, layout.values),
        layout_(layout),
        activation_(activation),
        step_x_(static_cast<double>(width) / static_cast<double>(layout.columns)),
        step_y_(static_cast<double>(height) / static_cast<double>(layout.rows)),
        points_(layout.values) {}

  Result<FrameResult> decode(Tensors tensors) override {
    for (std::size_t value = 0; value < points_.size(); ++value) {
      points_[value] = point(tensors[0], value);
    }
    FrameResult result{.kind = ResultKind::kPoints};
    result.points = points_;
    return result;
  }

 private:
  [[nodiscard]] Point point(std::span<const float> data, std::size_t value) const {
    std::size_t best = 0;
    for (std::size_t cell = 1; cell < layout_.cells(); ++cell) {
      if (data[layout_.at(cell, value)] > data[layout_.at(best, value)]) best = cell;
    }
    const auto score = static_cast<double>(data[layout_.at(best, value)]);
    const std::size_t column = best % layout_.columns;
    const std::size_t row = best / layout_.columns;
    const auto shift = [&](std::size_t place, std::size_t side, std::size_t step) {
      if (place == 0 || place + 1 == side) return 0.0;
      const float before = data[layout_.at(best - step, value)];
      const float behind = data[layout_.at(best + step, value)];
      return behind > before ? kQuarter : behind < before ? -kQuarter : 0.0;
    };
    const double x = static_cast<double>(column) + shift(column, layout_.columns, 1);
    const double y = static_cast<double>(row) + shift(row, layout_.rows, layout_.columns);
    const bool is_logit = activation_ == Activation::kSigmoid;
    return {.x = static_cast<float>(x * step_x_),
            .y = static_cast<float>(y * step_y_),
            .score = static_cast<float>(is_logit ? 1 / (1 + std::exp(-score)) : score)};
  }

  MapLayout layout_;
  Activation activation_;
  double step_x_;  // pixels of the input
  double step_y_;
  std::vector<Point> points_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> make_heat_map_reader(const Manifest& manifest,
                                                      const Labels& /*labels*/) {
  const Postprocess& wanted = manifest.postprocess;
  const Preprocess& input = manifest.preprocess;
  const TensorSpec& tensor = manifest.tensors[wanted.outputs[0]];
  const std::optional<MapLayout> layout = map_layout(tensor.shape, input.width, input.height);
  if (!layout || layout->values > kMostPoints) {
    return refused_tensor(tensor, "1 to " + std::to_string(kMostPoints) +
                                      " heat maps in the proportion of the input, " +
                                      std::to_string(input.height) + "x" +
                                      std::to_string(input.width));
  }
  return std::unique_ptr<Decoder>(std::make_unique<HeatMapReader>(
      wanted.outputs[0], *layout, activation_of(wanted.activation), input.width, input.height));
}

}  // namespace edgepipe
