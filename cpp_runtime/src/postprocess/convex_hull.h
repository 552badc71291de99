// ConvexHull: the corners of the smallest convex shape around cells, and the smallest rectangle
// around it.
//
//   ConvexHull hull(rows);
//   hull.clear();
//   hull.add(column, row);  // for each cell
//   const Rectangle rectangle = hull.smallest_rectangle();
//
// Allocates only when it is made. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgepipe {

/// A rectangle at any angle: from `low` to `high` along the unit vector (ux, uy), and along the one
/// that is clockwise from it, (-uy, ux), with y downwards.
struct Rectangle {
  double ux = 1;
  double uy = 0;
  double low[2] = {0, 0};
  double high[2] = {0, 0};

  [[nodiscard]] double side(std::size_t axis) const { return high[axis] - low[axis]; }
  [[nodiscard]] double area() const { return side(0) * side(1); }
};

class ConvexHull {
 public:
  /// For cells in rows 0 to `rows` - 1.
  explicit ConvexHull(std::size_t rows);

  void clear();
  void add(std::int32_t column, std::int32_t row);

  /// The rectangle of the smallest area around the cells' centres, of which there is at least one.
  /// One of its sides lies on a side of the hull.
  [[nodiscard]] Rectangle smallest_rectangle();

 private:
  struct Corner {
    std::int64_t x, y;
  };

  void find_corners();
  void push(std::size_t least, Corner corner);
  [[nodiscard]] Rectangle along(double ux, double uy) const;

  std::vector<std::int32_t>
      leftmost_;  // column in each row; the rows in use are from first to last
  std::vector<std::int32_t> rightmost_;
  std::int32_t first_ = 0;
  std::int32_t last_ = -1;
  std::vector<Corner> corners_;  // of the hull, in order
};

}  // namespace edgepipe
