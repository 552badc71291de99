// Histogram: durations in fixed memory; min, max and mean exact, percentiles within 1.6 %.
//
//   Histogram busy;
//   busy.add(elapsed_ns);
//   double p99_ms = busy.percentile(0.99) / 1e6;
//
// Each power of two is split into 64 linear buckets (the layout of HdrHistogram). Memory use does
// not depend on the number of values, and adding one takes a few instructions. Not thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "edgepipe/pipeline_statistics.h"

namespace edgepipe {

class Histogram {
 public:
  /// Counts one duration. Never allocates. Larger values count as 2^42 ns (73 minutes).
  void add(std::uint64_t value_ns);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }

  /// The value that the share `quantile` (0 to 1) of all values does not exceed; 0 if empty.
  [[nodiscard]] std::uint64_t percentile(double quantile) const;

  /// The number of values up to `value_ns`, or up to 1.6 % below it.
  [[nodiscard]] std::uint64_t count_within(std::uint64_t value_ns) const;

 private:
  static constexpr int kSubBits = 6;
  static constexpr int kMaxBits = 42;
  static constexpr std::size_t kBuckets = std::size_t{kMaxBits - kSubBits + 1} << kSubBits;

  static std::size_t bucket_of(std::uint64_t value_ns);
  static std::uint64_t upper_bound_of(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

/// Summarises the durations of a histogram.
DurationSummary summarise(const Histogram& histogram);

}  // namespace edgepipe
