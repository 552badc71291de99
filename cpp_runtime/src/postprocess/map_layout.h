// MapLayout: where the values of a map's cells are in a tensor.
//
//   const std::optional<MapLayout> layout = map_layout({1, 19, 104, 104}, 416, 416);
//   const float score = data[layout->at(cell, 7)];
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace edgepipe {

struct MapLayout {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t values = 0;      // of each cell
  std::size_t cell_step = 1;   // distance to the same value of the next cell
  std::size_t value_step = 1;  // distance to the next value of the same cell

  [[nodiscard]] std::size_t cells() const { return rows * columns; }
  [[nodiscard]] std::size_t at(std::size_t cell, std::size_t value) const {
    return cell * cell_step + value * value_step;
  }
};

/// The layout of [1, values, rows, columns] or [1, rows, columns, values] for an input of `width` x
/// `height` pixels, whose proportion the cells have to within a cell; the first, if both would do.
/// None for another shape.
std::optional<MapLayout> map_layout(std::span<const std::int64_t> shape, int width, int height);

}  // namespace edgepipe
