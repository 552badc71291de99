#include "postprocess/box_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace edgepipe {
namespace {

double sigmoid(double value) { return 1.0 / (1.0 + std::exp(-value)); }

/// A value whose sigmoid is below `threshold` even after rounding; minus infinity if there is none.
double least_logit(double threshold) {
  constexpr double kRounding = 1e-7;  // more than half a step of float32 below 1
  const double least = std::min(threshold, 1.0) - kRounding;
  if (least <= 0) return -std::numeric_limits<double>::infinity();
  return std::log(least / (1 - least));
}

struct Sides {
  double left, top, right, bottom;
};

Sides around(double x, double y, double width, double height) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

/// The values of one box.
class Values {
 public:
  Values(std::span<const float> data, const HeadField& field, const Candidate& candidate)
      : data_(data.data() + field.at(candidate.cell, candidate.anchor, 0)), step_(field.value) {}

  double operator[](std::size_t index) const { return data_[index * step_]; }

  /// The mean bin of a softmax over `bins` values from `first` on; the largest is subtracted so
  /// that exp cannot overflow.
  [[nodiscard]] double expectation(std::size_t first, std::size_t bins) const {
    if (bins == 1) return (*this)[first];
    double largest = (*this)[first];
    for (std::size_t bin = 1; bin < bins; ++bin) largest = std::max(largest, (*this)[first + bin]);
    double total = 0;
    double weighted = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const double weight = std::exp((*this)[first + bin] - largest);
      total += weight;
      weighted += weight * static_cast<double>(bin);
    }
    return weighted / total;
  }

 private:
  const float* data_;
  std::size_t step_;
};

float within(double value, int side) {
  return static_cast<float>(std::clamp(value, 0.0, static_cast<double>(side)));
}

}  // namespace

BoxDecoder::BoxDecoder(const Options& options)
    : options_(options),
      least_logit_(least_logit(options.score_threshold)),
      selection_(options.selection) {
  std::size_t most = 0;
  for (const Level& level : options_.levels) {
    if (level.objectness) most = std::max(most, level.columns * level.rows * level.per_cell);
  }
  objectness_.resize(most);
  points_.reserve(options_.selection.most_detections * options_.points);
}

std::span<const Detection> BoxDecoder::decode(Tensors tensors) {
  selection_.clear();
  for (std::uint32_t index = 0; index < options_.levels.size(); ++index) {
    const Level& level = options_.levels[index];
    if (options_.activation == Activation::kSoftmax) {
      scan_softmax(level, index, tensors);
    } else {
      scan(level, index, tensors);
    }
  }
  selection_.choose([&](const Candidate& candidate) { return box(candidate, tensors); });
  points_.clear();
  for (const Candidate& candidate : selection_.chosen()) {
    for (std::size_t number = 0; number < options_.points; ++number) {
      points_.push_back(point(candidate, number, tensors));
    }
  }
  return selection_.boxes();
}

void BoxDecoder::consider(double score, std::uint32_t level, std::size_t cell, std::size_t anchor,
                          std::size_t value) {
  const auto rounded = static_cast<float>(score);
  if (!(rounded >= options_.score_threshold)) return;  // also what is not a number
  selection_.add({.score = rounded,
                  .level = level,
                  .cell = static_cast<std::uint32_t>(cell),
                  .anchor = static_cast<std::uint32_t>(anchor),
                  .label_index = static_cast<std::uint32_t>(value - options_.background)});
}

/// Adds the candidates of a level whose scores do not depend on each other.
void BoxDecoder::scan(const Level& level, std::uint32_t index, Tensors tensors) {
  const std::span<const float> scores = tensors[level.scores.tensor];
  const bool sigmoids = options_.activation == Activation::kSigmoid;
  const std::size_t cells = level.columns * level.rows;
  if (level.objectness) {
    const std::span<const float> data = tensors[level.objectness->tensor];
    for (std::size_t at = 0; at < cells * level.per_cell; ++at) {
      const double value = data[level.objectness->at(at / level.per_cell, at % level.per_cell, 0)];
      objectness_[at] = !sigmoids ? value : value < least_logit_ ? 0 : sigmoid(value);
    }
  }
  const auto one = [&](std::size_t cell, std::size_t anchor, std::size_t value) {
    // A sigmoid is at most 1, so a score is at most its objectness; most cells end here.
    if (level.objectness && sigmoids &&
        static_cast<float>(objectness_[cell * level.per_cell + anchor]) <
            options_.score_threshold) {
      return;
    }
    const double raw = scores[level.scores.at(cell, anchor, value)];
    if (sigmoids && raw < least_logit_) return;
    double score = sigmoids ? sigmoid(raw) : raw;
    if (level.objectness) score *= objectness_[cell * level.per_cell + anchor];
    if (!(static_cast<float>(score) >= options_.score_threshold)) return;
    if (options_.rule == BoxRule::kPeaks && !is_peak(level, scores, cell, value)) return;
    consider(score, index, cell, anchor, value);
  };
  // In the order of memory, which matters to caches and not to the result.
  const auto first = static_cast<std::size_t>(options_.background);
  if (level.scores.value > level.scores.cell) {
    for (std::size_t anchor = 0; anchor < level.per_cell; ++anchor) {
      for (std::size_t value = first; value < level.scores.values; ++value) {
        for (std::size_t cell = 0; cell < cells; ++cell) one(cell, anchor, value);
      }
    }
    return;
  }
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (std::size_t anchor = 0; anchor < level.per_cell; ++anchor) {
      for (std::size_t value = first; value < level.scores.values; ++value) {
        one(cell, anchor, value);
      }
    }
  }
}

/// Adds the candidates of a level whose scores add up to 1 over the classes of a box.
void BoxDecoder::scan_softmax(const Level& level, std::uint32_t index, Tensors tensors) {
  const std::span<const float> data = tensors[level.scores.tensor];
  const auto first = static_cast<std::size_t>(options_.background);
  for (std::size_t cell = 0; cell < level.columns * level.rows; ++cell) {
    for (std::size_t anchor = 0; anchor < level.per_cell; ++anchor) {
      const auto value_at = [&](std::size_t value) {
        return static_cast<double>(data[level.scores.at(cell, anchor, value)]);
      };
      double largest = value_at(0);
      for (std::size_t value = 1; value < level.scores.values; ++value) {
        largest = std::max(largest, value_at(value));
      }
      double total = 0;
      for (std::size_t value = 0; value < level.scores.values; ++value) {
        total += std::exp(value_at(value) - largest);
      }
      for (std::size_t value = first; value < level.scores.values; ++value) {
        consider(std::exp(value_at(value) - largest) / total, index, cell, anchor, value);
      }
    }
  }
}

/// Whether no neighbour has a higher score for the class.
bool BoxDecoder::is_peak(const Level& level, std::span<const float> data, std::size_t cell,
                         std::size_t value) const {
  const std::size_t row = cell / level.columns;
  const std::size_t column = cell % level.columns;
  const float score = data[level.scores.at(cell, 0, value)];
  for (std::size_t y = row - (row > 0 ? 1 : 0); y <= std::min(row + 1, level.rows - 1); ++y) {
    for (std::size_t x = column - (column > 0 ? 1 : 0);
         x <= std::min(column + 1, level.columns - 1); ++x) {
      if (data[level.scores.at(y * level.columns + x, 0, value)] > score) return false;
    }
  }
  return true;
}

Detection BoxDecoder::box(const Candidate& candidate, Tensors tensors) const {
  const Level& level = options_.levels[candidate.level];
  const Values values(tensors[level.box.tensor], level.box, candidate);
  const auto column = static_cast<double>(candidate.cell % level.columns);
  const std::size_t rows_above = candidate.cell / level.columns;
  const auto row = static_cast<double>(rows_above);
  const double step_x = level.step_x;
  const double step_y = level.step_y;
  const double x = (column + options_.cell_offset) * step_x;
  const double y = (row + options_.cell_offset) * step_y;
  const bool anchored = !level.anchors.empty();
  const std::size_t first_size = std::size_t{2} * candidate.anchor;
  const double width = anchored ? level.anchors[first_size] : 0;
  const double height = anchored ? level.anchors[first_size + 1] : 0;
  const auto fraction = [&](double value) {
    return options_.activation == Activation::kSigmoid ? sigmoid(value) : value;
  };
  Sides sides{};
  switch (options_.rule) {
    case BoxRule::kDistances: {
      const std::size_t bins = options_.bins;
      sides = {x - values.expectation(0, bins) * step_x,
               y - values.expectation(bins, bins) * step_y,
               x + values.expectation(2 * bins, bins) * step_x,
               y + values.expectation(3 * bins, bins) * step_y};
      break;
    }
    case BoxRule::kAnchorsV3:
      sides = around((column + fraction(values[0])) * step_x, (row + fraction(values[1])) * step_y,
                     width * std::exp(values[2]), height * std::exp(values[3]));
      break;
    case BoxRule::kAnchorsV5: {
      const double twice_w = 2 * fraction(values[2]);
      const double twice_h = 2 * fraction(values[3]);
      sides = around((column - 0.5 + 2 * fraction(values[0])) * step_x,
                     (row - 0.5 + 2 * fraction(values[1])) * step_y, width * (twice_w * twice_w),
                     height * (twice_h * twice_h));
      break;
    }
    case BoxRule::kOffsets:
      sides = around((column + values[0]) * step_x, (row + values[1]) * step_y,
                     std::exp(values[2]) * step_x, std::exp(values[3]) * step_y);
      break;
    case BoxRule::kPriors:
      sides = around(x + values[0] * options_.variances[0] * width,
                     y + values[1] * options_.variances[0] * height,
                     width * std::exp(values[2] * options_.variances[1]),
                     height * std::exp(values[3] * options_.variances[1]));
      break;
    case BoxRule::kCentreSize:
    case BoxRule::kCorners: {
      const double scale_x = options_.normalized ? options_.width : 1;
      const double scale_y = options_.normalized ? options_.height : 1;
      const Sides scaled{values[0] * scale_x, values[1] * scale_y, values[2] * scale_x,
                         values[3] * scale_y};
      sides = options_.rule == BoxRule::kCorners
                  ? scaled
                  : around(scaled.left, scaled.top, scaled.right, scaled.bottom);
      break;
    }
    case BoxRule::kPeaks: {
      const bool shifted = level.centre.values == 2;
      const Values centre(tensors[level.centre.tensor], level.centre, candidate);
      sides = around((column + (shifted ? centre[0] : options_.cell_offset)) * step_x,
                     (row + (shifted ? centre[1] : options_.cell_offset)) * step_y,
                     values[0] * step_x, values[1] * step_y);
      break;
    }
  }
  return {.left = within(sides.left, options_.width),
          .top = within(sides.top, options_.height),
          .right = within(sides.right, options_.width),
          .bottom = within(sides.bottom, options_.height),
          .score = candidate.score,
          .label_index = static_cast<int>(candidate.label_index)};
}

Point BoxDecoder::point(const Candidate& candidate, std::size_t number, Tensors tensors) const {
  const Level& level = options_.levels[candidate.level];
  const Values values(tensors[level.points.tensor], level.points, candidate);
  const std::size_t first = number * options_.point_values;
  double x = values[first];
  double y = values[first + 1];
  const double centre_x =
      (static_cast<double>(candidate.cell % level.columns) + options_.cell_offset) * level.step_x;
  const std::size_t rows_above = candidate.cell / level.columns;
  const double centre_y = (static_cast<double>(rows_above) + options_.cell_offset) * level.step_y;
  const std::size_t first_size = std::size_t{2} * candidate.anchor;
  switch (options_.rule) {
    case BoxRule::kDistances:
      x = centre_x + x * level.step_x;
      y = centre_y + y * level.step_y;
      break;
    case BoxRule::kPriors:
      x = centre_x + x * options_.variances[0] * level.anchors[first_size];
      y = centre_y + y * options_.variances[0] * level.anchors[first_size + 1];
      break;
    default:
      if (options_.normalized) {
        x *= options_.width;
        y *= options_.height;
      }
      break;
  }
  const double score = options_.point_values > 2 ? values[first + 2] : 1.0;
  return {
      .x = static_cast<float>(x), .y = static_cast<float>(y), .score = static_cast<float>(score)};
}

}  // namespace edgepipe
