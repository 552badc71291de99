#include "media/pictures/axis_taps.h"

#include <algorithm>

namespace edgepipe {
namespace {

constexpr std::int64_t kUnity = std::int64_t{1} << AxisTaps::kUnityLog2;

}  // namespace

AxisTaps::AxisTaps(Method method, int source, int fitted, int offset, int outputs) {
  for (int output = offset; output < offset + outputs; ++output) {
    if (method == Method::kArea) {
      add_area(output, source, fitted);
    } else {
      add_linear(output, source, fitted);
    }
  }
}

/// In units of 1/fitted source pixels, output o covers [o * source, (o + 1) * source) and source
/// pixel p covers [p * fitted, (p + 1) * fitted). Rounding the running total of the overlaps
/// instead of each overlap makes the sum of the weights exact.
void AxisTaps::add_area(std::int64_t output, std::int64_t source, std::int64_t fitted) {
  const std::int64_t begin = output * source;
  const std::int64_t end = begin + source;
  const std::int64_t first = begin / fitted;
  Entry entry{static_cast<int>(first), weights_.size(), 0};
  std::int64_t given = 0;
  for (std::int64_t pixel = first; pixel * fitted < end; ++pixel) {
    const std::int64_t covered = std::min((pixel + 1) * fitted, end) - begin;
    const std::int64_t total = (covered * kUnity + source / 2) / source;
    weights_.push_back(static_cast<std::uint32_t>(total - given));
    given = total;
    ++entry.count;
  }
  entries_.push_back(entry);
}

/// The centre of output o is at (o + 1/2) source / fitted - 1/2 source pixels: with a common
/// denominator, ((2 o + 1) source - fitted) / (2 fitted). Beyond the last centres the edge repeats.
void AxisTaps::add_linear(std::int64_t output, std::int64_t source, std::int64_t fitted) {
  const std::int64_t denominator = 2 * fitted;
  const std::int64_t numerator =
      std::clamp((2 * output + 1) * source - fitted, std::int64_t{0}, (source - 1) * denominator);
  const std::int64_t first = numerator / denominator;
  const std::int64_t second_weight =
      ((numerator % denominator) * kUnity + denominator / 2) / denominator;
  Entry entry{static_cast<int>(first), weights_.size(), 1};
  weights_.push_back(static_cast<std::uint32_t>(kUnity - second_weight));
  if (second_weight > 0) {
    weights_.push_back(static_cast<std::uint32_t>(second_weight));
    entry.count = 2;
  }
  entries_.push_back(entry);
}

}  // namespace edgepipe
