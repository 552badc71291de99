// HeadLayout: where the values of every cell of a detection head are in its tensors.
//
//   const auto field = locate({1, 255, 13, 13}, {.columns = 13, .rows = 13, .per_cell = 3});
//   const float x = data[field->at(cell, anchor, 0)];
//
// Exporters leave a head as [1, A V, rows, columns], [1, rows, columns, A V], [1, A, rows, columns,
// V], [1, A, V, rows, columns], [1, rows, columns, A, V], or as a list of all cells, [1, N, V],
// [N, V] or [1, V, N], for A boxes of V values per cell. A list may hold the cells of several
// heads, one after the other, with the boxes of a cell next to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace edgepipe {

/// Some values of each box of a head, in one tensor.
struct HeadField {
  std::size_t tensor = 0;  // index among the tensors given to a decoder
  std::size_t first = 0;   // index of the first value
  std::size_t cell = 0;    // distance to the same value of the next cell
  std::size_t anchor = 0;  // of the next box of a cell
  std::size_t value = 0;   // of the next value
  std::size_t values = 0;  // of a box

  [[nodiscard]] std::size_t at(std::size_t cell_index, std::size_t anchor_index,
                               std::size_t value_index) const {
    return first + cell_index * cell + anchor_index * anchor + value_index * value;
  }

  /// The values from `begin` on, `count` of them.
  [[nodiscard]] HeadField part(std::size_t begin, std::size_t count) const {
    HeadField found = *this;
    found.first += begin * value;
    found.values = count;
    return found;
  }
};

/// What a tensor holds: the cells of one head, and how many boxes of other heads come before them.
struct HeadShape {
  std::size_t columns = 1;
  std::size_t rows = 1;
  std::size_t per_cell = 1;  // boxes
  std::size_t before = 0;    // boxes of the heads before this one in the same tensor
  std::size_t total = 0;     // boxes of all heads in the tensor; 0: only those of this one
};

/// The head's values in a tensor of `shape`; none if it is none of the forms above.
std::optional<HeadField> locate(std::span<const std::int64_t> shape, const HeadShape& head);

/// "[1, 255, 13, 13]".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace edgepipe
