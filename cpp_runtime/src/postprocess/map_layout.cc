#include "postprocess/map_layout.h"

#include <algorithm>
#include <cstdlib>

namespace edgepipe {
namespace {

/// Whether `rows` and `columns` are in the proportion of the input's sides; `tolerance` is that of
/// the products, which fit: sides are below 2**32 and pixels below 2**20.
bool has_proportion(std::int64_t rows, std::int64_t columns, int width, int height,
                    std::int64_t tolerance) {
  return std::abs(rows * width - columns * height) <= tolerance;
}

}  // namespace

std::optional<MapLayout> map_layout(std::span<const std::int64_t> shape, int width, int height) {
  if (shape.size() != 4 || shape[0] != 1) return std::nullopt;
  // A network that rounds up on the way misses the proportion by less than a cell.
  for (const std::int64_t tolerance : {0, std::max(width, height) - 1}) {
    if (has_proportion(shape[2], shape[3], width, height, tolerance)) {
      MapLayout layout{.rows = static_cast<std::size_t>(shape[2]),
                       .columns = static_cast<std::size_t>(shape[3]),
                       .values = static_cast<std::size_t>(shape[1])};
      layout.value_step = layout.cells();
      return layout;
    }
    if (has_proportion(shape[1], shape[2], width, height, tolerance)) {
      const auto values = static_cast<std::size_t>(shape[3]);
      return MapLayout{.rows = static_cast<std::size_t>(shape[1]),
                       .columns = static_cast<std::size_t>(shape[2]),
                       .values = values,
                       .cell_step = values};
    }
  }
  return std::nullopt;
}

}  // namespace edgepipe
