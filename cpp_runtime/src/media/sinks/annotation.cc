#include "media/sinks/annotation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace edgepipe {
namespace {

constexpr Colour kBand{.red = 32, .green = 32, .blue = 32};  // of the caption

/// Draws one frame's results.
class Annotator {
 public:
  Annotator(const Canvas& canvas, const Placement& placement, const ClassNames& names)
      : painter_(canvas),
        sizes_(drawing_sizes(canvas.width, canvas.height)),
        placement_(placement),
        names_(names) {}

  /// Class 0, which usually is the background, keeps its pixels.
  void class_map(const ClassMap& map) {
    const int columns = map.right - map.left;
    const int rows = map.bottom - map.top;
    const auto width = static_cast<std::size_t>(map.width);
    const auto part = [](int cell, int cells, int pixels, int cut) {
      return static_cast<int>(static_cast<std::int64_t>(cell) * pixels / cells) - cut;
    };
    for (int row = 0; row < rows; ++row) {
      const int top = part(row, rows, placement_.fitted_height, placement_.top);
      const int bottom = part(row + 1, rows, placement_.fitted_height, placement_.top);
      for (int column = 0; column < columns; ++column) {
        const std::size_t at = static_cast<std::size_t>(map.top + row) * width +
                               static_cast<std::size_t>(map.left + column);
        const int found = map.classes[at];
        if (found == 0) continue;
        painter_.tint({part(column, columns, placement_.fitted_width, placement_.left), top,
                       part(column + 1, columns, placement_.fitted_width, placement_.left), bottom},
                      class_colour(found));
      }
    }
  }

  void box(const Detection& found) {
    painter_.outline(area_of(found), sizes_.line, class_colour(found.label_index));
  }

  /// Above the box, or else below it.
  void name_of(const Detection& found) {
    const std::string text = with_score(names_(found.label_index), found.score);
    const Area box = area_of(found);
    const Area above = painter_.label_area(box.left, std::max(box.top, 0), text, sizes_.letter);
    const int height = above.bottom - above.top;
    for (const int top : {std::max(box.top, 0), box.bottom + height}) {
      const Area area = painter_.label_area(box.left, top, text, sizes_.letter);
      const auto overlaps = [&area](const Area& other) {
        return area.left < other.right && other.left < area.right && area.top < other.bottom &&
               other.top < area.bottom;
      };
      if (std::ranges::any_of(named_, overlaps)) continue;
      painter_.label(box.left, top, text, sizes_.letter, class_colour(found.label_index));
      named_.push_back(area);
      return;
    }
  }

  void points(std::span<const Point> found) {
    for (std::size_t index = 0; index < found.size(); ++index) {
      painter_.dot(x(found[index].x), y(found[index].y), sizes_.dot,
                   class_colour(static_cast<int>(index)));
    }
  }

  void caption(std::string_view text, float score) {
    painter_.label(0, 0, with_score(text, score), sizes_.letter, kBand);
  }

  [[nodiscard]] std::string name(int label_index) const { return names_(label_index); }

 private:
  [[nodiscard]] int x(float value) const {
    return static_cast<int>(std::lround(value * placement_.scale_x())) - placement_.left;
  }
  [[nodiscard]] int y(float value) const {
    return static_cast<int>(std::lround(value * placement_.scale_y())) - placement_.top;
  }

  static std::string with_score(std::string_view text, float score) {
    std::array<char, 16> digits{};
    std::snprintf(digits.data(), digits.size(), " %.2f", static_cast<double>(score));
    return std::string(text) + digits.data();
  }

  [[nodiscard]] Area area_of(const Detection& found) const {
    return {x(found.left), y(found.top), x(found.right), y(found.bottom)};
  }

  Painter painter_;
  std::vector<Area> named_;  // where names are
  DrawingSizes sizes_;
  const Placement& placement_;
  const ClassNames& names_;
};

}  // namespace

void HeldResult::hold(const FrameResult& result) {
  scalars_ = result;
  detections_.assign(result.detections.begin(), result.detections.end());
  points_.assign(result.points.begin(), result.points.end());
  classes_.assign(result.classes.begin(), result.classes.end());
  cells_.assign(result.map.classes.begin(), result.map.classes.end());
  text_ = result.text;
}

FrameResult HeldResult::view() const {
  FrameResult result = scalars_;
  result.detections = detections_;
  result.points = points_;
  result.classes = classes_;
  result.map.classes = cells_;
  result.text = text_;
  return result;
}

void annotate(const Canvas& canvas, const FrameResult& result, const Placement& placement,
              const ClassNames& names) {
  Annotator annotator(canvas, placement, names);
  if (result.kind == ResultKind::kClassMap) annotator.class_map(result.map);
  for (std::size_t index = result.detections.size(); index-- > 0;) {
    annotator.box(result.detections[index]);
  }
  for (const Detection& found : result.detections) annotator.name_of(found);
  const std::size_t groups = std::max<std::size_t>(result.detections.size(), 1);
  const std::size_t each = result.points.size() / groups;
  for (std::size_t group = 0; group < groups; ++group) {
    annotator.points(result.points.subspan(group * each, each));
  }
  if (!result.classes.empty()) {
    const ClassScore& best = result.classes.front();
    annotator.caption(annotator.name(best.label_index), best.probability);
  } else if (!result.text.empty()) {
    annotator.caption(result.text, result.text_score);
  }
}

}  // namespace edgepipe
