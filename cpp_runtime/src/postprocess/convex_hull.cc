#include "postprocess/convex_hull.h"

#include <algorithm>
#include <cmath>

namespace edgepipe {

ConvexHull::ConvexHull(std::size_t rows) : leftmost_(rows), rightmost_(rows) {
  corners_.reserve(2 * rows + 2);
}

void ConvexHull::clear() {
  first_ = 0;
  last_ = -1;
}

void ConvexHull::add(std::int32_t column, std::int32_t row) {
  constexpr std::int32_t kNone = -1;
  if (last_ < first_) {
    first_ = last_ = row;
    leftmost_[static_cast<std::size_t>(row)] = kNone;
  }
  while (row < first_) leftmost_[static_cast<std::size_t>(--first_)] = kNone;
  while (row > last_) leftmost_[static_cast<std::size_t>(++last_)] = kNone;
  std::int32_t& left = leftmost_[static_cast<std::size_t>(row)];
  std::int32_t& right = rightmost_[static_cast<std::size_t>(row)];
  if (left == kNone) left = right = column;
  left = std::min(left, column);
  right = std::max(right, column);
}

/// Adds a corner behind the first `least`, without those that it makes unnecessary.
void ConvexHull::push(std::size_t least, Corner corner) {
  const auto turns = [&] {
    const Corner a = corners_[corners_.size() - 2];
    const Corner b = corners_.back();
    return (b.x - a.x) * (corner.y - a.y) - (b.y - a.y) * (corner.x - a.x) < 0;
  };
  while (corners_.size() >= least + 2 && !turns()) corners_.pop_back();
  corners_.push_back(corner);
}

/// Down the left side and up the right side (Andrew's monotone chain); rows are sorted already.
void ConvexHull::find_corners() {
  corners_.clear();
  const auto has_cells = [&](std::int32_t row) {
    return leftmost_[static_cast<std::size_t>(row)] >= 0;
  };
  for (std::int32_t row = first_; row <= last_; ++row) {
    if (has_cells(row)) push(0, {leftmost_[static_cast<std::size_t>(row)], row});
  }
  const std::size_t down = corners_.size();
  for (std::int32_t row = last_; row >= first_; --row) {
    if (has_cells(row)) push(down, {rightmost_[static_cast<std::size_t>(row)], row});
  }
}

Rectangle ConvexHull::along(double ux, double uy) const {
  Rectangle found{.ux = ux, .uy = uy};
  bool first = true;
  for (const Corner& corner : corners_) {
    const auto x = static_cast<double>(corner.x);
    const auto y = static_cast<double>(corner.y);
    const double place[2] = {x * ux + y * uy, y * ux - x * uy};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      found.low[axis] = first ? place[axis] : std::min(found.low[axis], place[axis]);
      found.high[axis] = first ? place[axis] : std::max(found.high[axis], place[axis]);
    }
    first = false;
  }
  return found;
}

Rectangle ConvexHull::smallest_rectangle() {
  find_corners();
  Rectangle best = along(1, 0);
  for (std::size_t index = 0; index < corners_.size(); ++index) {
    const Corner& from = corners_[index];
    const Corner& to = corners_[(index + 1) % corners_.size()];
    const auto dx = static_cast<double>(to.x - from.x);
    const auto dy = static_cast<double>(to.y - from.y);
    const double length = std::sqrt(dx * dx + dy * dy);
    if (length == 0) continue;
    const Rectangle found = along(dx / length, dy / length);
    if (found.area() < best.area()) best = found;
  }
  return best;
}

}  // namespace edgepipe
