#include "postprocess/text_finder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "postprocess/activation.h"
#include "postprocess/convex_hull.h"
#include "postprocess/map_layout.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostRegions = 1000;
constexpr std::size_t kCorners = 4;
constexpr double kLeastSide = 3;  // cells; what is narrower is noise

struct Region {
  std::array<Point, kCorners> corners;
  float score = 0;
  std::size_t number = 0;  // in the order of their first cells
};

class TextFinder final : public Decoder {
 public:
  TextFinder(const Manifest& manifest, const MapLayout& layout)
      : Decoder({manifest.postprocess.outputs[0]}, kMostRegions, kMostRegions * kCorners),
        wanted_(manifest.postprocess),
        is_logit_(activation_of(wanted_.activation) == Activation::kSigmoid),
        least_(is_logit_ ? logit(wanted_.map_threshold)
                         : static_cast<float>(wanted_.map_threshold)),
        layout_(layout),
        width_(manifest.preprocess.width),
        height_(manifest.preprocess.height),
        seen_(layout.cells()),
        hull_(layout.rows) {
    waiting_.reserve(layout.cells());
    regions_.reserve(kMostRegions);
    boxes_.reserve(kMostRegions);
    points_.reserve(kMostRegions * kCorners);
  }

  Result<FrameResult> decode(Tensors tensors) override {
    const std::span<const float> data = tensors[0];
    for (std::size_t cell = 0; cell < seen_.size(); ++cell) {
      seen_[cell] = data[cell] >= least_ ? 0 : 1;  // also what is not a number
    }
    regions_.clear();
    for (std::size_t cell = 0; cell < seen_.size() && regions_.size() < kMostRegions; ++cell) {
      if (!seen_[cell]) add_region(data, cell);
    }
    std::ranges::sort(regions_, [](const Region& one, const Region& other) {
      return one.score != other.score ? one.score > other.score : one.number < other.number;
    });
    boxes_.clear();
    points_.clear();
    for (const Region& region : regions_) {
      boxes_.push_back(box_around(region));
      points_.insert(points_.end(), region.corners.begin(), region.corners.end());
    }
    FrameResult result{.kind = ResultKind::kDetections};
    result.detections = boxes_;
    result.points = points_;
    return result;
  }

 private:
  [[nodiscard]] double value(float raw) const {
    const auto found = static_cast<double>(raw);
    return is_logit_ ? 1 / (1 + std::exp(-found)) : found;
  }

  /// Follows the cells that touch, from the first one; keeps the region if it is large and sure
  /// enough.
  void add_region(std::span<const float> data, std::size_t first) {
    hull_.clear();
    double total = 0;
    std::size_t count = 0;
    waiting_.clear();
    take(first);
    while (!waiting_.empty()) {
      const std::size_t cell = waiting_.back();
      waiting_.pop_back();
      total += value(data[cell]);
      ++count;
      const std::size_t row = cell / layout_.columns;
      const std::size_t column = cell % layout_.columns;
      hull_.add(static_cast<std::int32_t>(column), static_cast<std::int32_t>(row));
      const std::size_t last_row = std::min(row + 1, layout_.rows - 1);
      const std::size_t last_column = std::min(column + 1, layout_.columns - 1);
      for (std::size_t y = row - (row > 0 ? 1 : 0); y <= last_row; ++y) {
        for (std::size_t x = column - (column > 0 ? 1 : 0); x <= last_column; ++x) {
          if (!seen_[y * layout_.columns + x]) take(y * layout_.columns + x);
        }
      }
    }
    const double score = total / static_cast<double>(count);
    if (score < wanted_.score_threshold) return;
    Rectangle rectangle = hull_.smallest_rectangle();
    if (std::min(rectangle.side(0), rectangle.side(1)) < kLeastSide) return;
    const double wider =
        rectangle.area() * wanted_.unclip / (2 * (rectangle.side(0) + rectangle.side(1)));
    for (double& low : rectangle.low) low -= wider;
    for (double& high : rectangle.high) high += wider;
    regions_.push_back({.corners = corners(rectangle),
                        .score = static_cast<float>(score),
                        .number = regions_.size()});
  }

  void take(std::size_t cell) {
    seen_[cell] = 1;
    waiting_.push_back(cell);
  }

  /// In pixels of the input, inside it.
  [[nodiscard]] std::array<Point, kCorners> corners(const Rectangle& rectangle) const {
    const double along[kCorners] = {rectangle.low[0], rectangle.high[0], rectangle.high[0],
                                    rectangle.low[0]};
    const double across[kCorners] = {rectangle.low[1], rectangle.low[1], rectangle.high[1],
                                     rectangle.high[1]};
    const auto pixel = [](double cell, std::size_t cells, int side) {
      const double found = (cell + 0.5) * side / static_cast<double>(cells);
      return static_cast<float>(std::clamp(found, 0.0, static_cast<double>(side)));
    };
    std::array<Point, kCorners> found;
    std::size_t first = 0;
    double least = 0;
    for (std::size_t corner = 0; corner < kCorners; ++corner) {
      const double x = along[corner] * rectangle.ux - across[corner] * rectangle.uy;
      const double y = along[corner] * rectangle.uy + across[corner] * rectangle.ux;
      found[corner] = {.x = pixel(x, layout_.columns, width_),
                       .y = pixel(y, layout_.rows, height_)};
      if (corner == 0 || x + y < least) {
        first = corner;
        least = x + y;
      }
    }
    // libstdc++'s std::ranges::rotate needs a compiler newer than clang 14.
    std::rotate(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
    return found;
  }

  static Detection box_around(const Region& region) {
    const Point& start = region.corners[0];
    Detection box{.left = start.x,
                  .top = start.y,
                  .right = start.x,
                  .bottom = start.y,
                  .score = region.score};
    for (const Point& corner : region.corners) {
      box.left = std::min(box.left, corner.x);
      box.top = std::min(box.top, corner.y);
      box.right = std::max(box.right, corner.x);
      box.bottom = std::max(box.bottom, corner.y);
    }
    return box;
  }

  Postprocess wanted_;
  bool is_logit_;
  float least_;  // of a cell, as the network gives it
  MapLayout layout_;
  int width_;  // of the network's input, pixels
  int height_;
  std::vector<std::uint8_t> seen_;  // by cell: belongs to no text, or to a region that is known
  std::vector<std::size_t> waiting_;
  ConvexHull hull_;
  std::vector<Region> regions_;
  std::vector<Detection> boxes_;
  std::vector<Point> points_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> make_text_finder(const Manifest& manifest,
                                                  const Labels& /*labels*/) {
  const Preprocess& input = manifest.preprocess;
  const TensorSpec& tensor = manifest.tensors[manifest.postprocess.outputs[0]];
  const std::optional<MapLayout> layout = map_layout(tensor.shape, input.width, input.height);
  if (!layout || layout->values != 1) {
    return refused_tensor(tensor, "a map in the proportion of the input, " +
                                      std::to_string(input.height) + "x" +
                                      std::to_string(input.width));
  }
  return std::unique_ptr<Decoder>(std::make_unique<TextFinder>(manifest, *layout));
}

}  // namespace edgepipe
