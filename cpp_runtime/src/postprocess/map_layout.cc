#include "postprocess/map_layout.h"

namespace edgepipe {

std::optional<MapLayout> map_layout(std::span<const std::int64_t> shape, int width, int height) {
  if (shape.size() != 4 || shape[0] != 1) return std::nullopt;
  // Sides are below 2**32 and pixels below 2**20, so the products fit.
  const auto has_proportion = [&](std::int64_t rows, std::int64_t columns) {
    return rows * width == columns * height;
  };
  if (has_proportion(shape[2], shape[3])) {
    MapLayout layout{.rows = static_cast<std::size_t>(shape[2]),
                     .columns = static_cast<std::size_t>(shape[3]),
                     .values = static_cast<std::size_t>(shape[1])};
    layout.value_step = layout.cells();
    return layout;
  }
  if (!has_proportion(shape[1], shape[2])) return std::nullopt;
  const auto values = static_cast<std::size_t>(shape[3]);
  return MapLayout{.rows = static_cast<std::size_t>(shape[1]),
                   .columns = static_cast<std::size_t>(shape[2]),
                   .values = values,
                   .cell_step = values};
}

}  // namespace edgepipe
