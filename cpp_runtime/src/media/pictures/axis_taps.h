// AxisTaps: the source pixels and weights of each output pixel along one axis.
//
// Shrinking averages over the area that an output pixel covers. Enlarging interpolates between the
// two nearest centres. The weights are integers that add up to exactly 2048.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace edgepipe {

class AxisTaps {
 public:
  static constexpr int kUnityLog2 = 11;

  enum class Method { kArea, kLinear };

  AxisTaps() = default;

  /// For outputs offset .. offset + outputs - 1 of an axis of `source` pixels scaled to `fitted`.
  AxisTaps(Method method, int source, int fitted, int offset, int outputs);

  [[nodiscard]] int first(std::size_t output) const { return entries_[output].first; }
  [[nodiscard]] std::span<const std::uint32_t> weights(std::size_t output) const {
    return {weights_.data() + entries_[output].begin, entries_[output].count};
  }

 private:
  struct Entry {
    int first;  // source pixel of the first weight
    std::size_t begin;
    std::size_t count;
  };

  void add_area(std::int64_t output, std::int64_t source, std::int64_t fitted);
  void add_linear(std::int64_t output, std::int64_t source, std::int64_t fitted);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> weights_;
};

}  // namespace edgepipe
