#include "pipeline/histogram.h"

#include <algorithm>
#include <cmath>

namespace edgepipe {

std::size_t Histogram::bucket_of(std::uint64_t value_ns) {
  const std::uint64_t value = std::min(value_ns, (std::uint64_t{1} << kMaxBits) - 1);
  const int bits = static_cast<int>(std::bit_width(value));
  if (bits <= kSubBits) return static_cast<std::size_t>(value);  // exact below 64 ns
  const int octave = bits - kSubBits;                            // 1, 2, ...
  const std::uint64_t sub = (value >> (octave - 1)) & ((1U << kSubBits) - 1);
  return (static_cast<std::size_t>(octave) << kSubBits) + static_cast<std::size_t>(sub);
}

std::uint64_t Histogram::upper_bound_of(std::size_t bucket) {
  const std::size_t octave = bucket >> kSubBits;
  const std::uint64_t sub = bucket & ((1U << kSubBits) - 1);
  if (octave == 0) return sub;
  return (((std::uint64_t{1} << kSubBits) + sub + 1) << (octave - 1)) - 1;
}

void Histogram::add(std::uint64_t value_ns) {
  ++counts_[bucket_of(value_ns)];
  ++count_;
  total_ += value_ns;
  min_ = std::min(min_, value_ns);
  max_ = std::max(max_, value_ns);
}

std::uint64_t Histogram::percentile(double quantile) const {
  if (count_ == 0) return 0;
  const double rank = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count_));
  const std::uint64_t wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rank));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= wanted) return std::clamp(upper_bound_of(bucket), min_, max_);
  }
  return max_;
}

std::uint64_t Histogram::count_within(std::uint64_t value_ns) const {
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets && upper_bound_of(bucket) <= value_ns; ++bucket) {
    seen += counts_[bucket];
  }
  return seen;
}

DurationSummary summarise(const Histogram& histogram) {
  const auto ms = [](std::uint64_t value_ns) { return static_cast<double>(value_ns) / 1e6; };
  DurationSummary summary;
  summary.count = histogram.count();
  if (summary.count == 0) return summary;
  summary.min_ms = ms(histogram.min());
  summary.median_ms = ms(histogram.percentile(0.50));
  summary.p95_ms = ms(histogram.percentile(0.95));
  summary.p99_ms = ms(histogram.percentile(0.99));
  summary.max_ms = ms(histogram.max());
  summary.mean_ms = ms(histogram.total()) / static_cast<double>(summary.count);
  return summary;
}

}  // namespace edgepipe
