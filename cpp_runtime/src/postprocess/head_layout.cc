#include "postprocess/head_layout.h"

#include <vector>

namespace edgepipe {

std::optional<HeadField> locate(std::span<const std::int64_t> shape, const HeadShape& head) {
  std::vector<std::size_t> sides(shape.begin(), shape.end());
  if (sides.size() >= 3 && sides[0] == 1) sides.erase(sides.begin());
  const std::size_t boxes = head.columns * head.rows * head.per_cell;
  const std::size_t total = head.total == 0 ? boxes : head.total;
  const std::size_t each = head.per_cell;
  const std::size_t plane = head.columns * head.rows;
  const auto is = [&](std::size_t index, std::size_t side) { return sides[index] == side; };
  const auto rows_columns = [&](std::size_t index) {
    return is(index, head.rows) && is(index + 1, head.columns);
  };
  if (sides.size() == 2 && is(0, total)) {
    const std::size_t values = sides[1];
    return HeadField{.first = head.before * values,
                     .cell = each * values,
                     .anchor = values,
                     .value = 1,
                     .values = values};
  }
  if (sides.size() == 2 && is(1, total)) {
    return HeadField{
        .first = head.before, .cell = each, .anchor = 1, .value = total, .values = sides[0]};
  }
  if (total != boxes) return std::nullopt;  // only a list can hold several heads
  if (sides.size() == 3 && rows_columns(1) && sides[0] % each == 0) {
    const std::size_t values = sides[0] / each;
    return HeadField{.cell = 1, .anchor = values * plane, .value = plane, .values = values};
  }
  if (sides.size() == 3 && rows_columns(0) && sides[2] % each == 0) {
    const std::size_t values = sides[2] / each;
    return HeadField{.cell = sides[2], .anchor = values, .value = 1, .values = values};
  }
  if (sides.size() != 4) return std::nullopt;
  if (is(0, each) && rows_columns(1)) {
    return HeadField{.cell = sides[3], .anchor = plane * sides[3], .value = 1, .values = sides[3]};
  }
  if (is(0, each) && rows_columns(2)) {
    return HeadField{.cell = 1, .anchor = sides[1] * plane, .value = plane, .values = sides[1]};
  }
  if (rows_columns(0) && is(2, each)) {
    return HeadField{.cell = each * sides[3], .anchor = sides[3], .value = 1, .values = sides[3]};
  }
  return std::nullopt;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t side : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(side);
  }
  return text + "]";
}

}  // namespace edgepipe
