#include "pipeline/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace edgepipe {
namespace {

TEST(HistogramTest, IsZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.percentile(0.99), 0u);
}

TEST(HistogramTest, PercentilesAreWithinOneSixtyFourthOfTheExactOnes) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> durations(14, 2);  // around 1 ms, a long tail
  std::vector<std::uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<std::uint64_t>(durations(random)));
    histogram.add(values.back());
  }
  std::ranges::sort(values);
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  for (const double quantile : {0.01, 0.5, 0.95, 0.99, 1.0}) {
    const double exact =
        static_cast<double>(values[static_cast<std::size_t>(quantile * 20000) - 1]);
    const double found = static_cast<double>(histogram.percentile(quantile));
    EXPECT_GE(found, exact);
    EXPECT_LE(found, exact * (1 + 1.0 / 64) + 1);
  }
}

TEST(HistogramTest, CountsValuesUpToABound) {
  Histogram histogram;
  EXPECT_EQ(histogram.count_within(UINT64_MAX), 0u);
  for (const std::uint64_t value : {0u, 5u, 63u, 1'000'000u, 2'000'000u}) histogram.add(value);
  EXPECT_EQ(histogram.count_within(0), 1u);
  EXPECT_EQ(histogram.count_within(5), 2u);
  EXPECT_EQ(histogram.count_within(63), 3u);
  EXPECT_EQ(histogram.count_within(980'000), 3u);
  EXPECT_EQ(histogram.count_within(1'017'000), 4u);
  EXPECT_EQ(histogram.count_within(UINT64_MAX), 5u);
}

TEST(HistogramTest, ValuesBeyondItsRangeAreStillCounted) {
  Histogram histogram;
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
}

}  // namespace
}  // namespace edgepipe
