// PipelineStatistics: a consistent snapshot of a pipeline's statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edgepipe {

class Histogram;

/// A distribution of durations; percentiles within 1.6 %. All 0 without samples.
struct DurationSummary {
  std::uint64_t count = 0;
  double min_ms = 0;
  double median_ms = 0;
  double p95_ms = 0;
  double p99_ms = 0;
  double max_ms = 0;
  double mean_ms = 0;
};

/// Summarises the durations of a histogram, which are in nanoseconds.
DurationSummary summarise(const Histogram& histogram);

struct StageStatistics {
  std::string name;
  std::vector<int> cores;     // that it may run on; empty: not pinned
  DurationSummary busy;       // of one run of the stage
  double utilisation = 0;     // share of the time from the first submit to the last completion
  std::uint64_t waiting = 0;  // frames that are ready for the stage and not started
  std::uint64_t retries = 0;  // frames run again because the device hung
  std::uint64_t fallback_frames = 0;  // frames that the stage's fallback ran
  std::string fault;                  // the device's last failure; empty: none
};

struct PipelineStatistics {
  // submitted == delivered + dropped + failed + in_flight, always.
  std::uint64_t submitted = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;    // by cancel(), or because an earlier frame failed
  std::uint64_t failed = 0;     // 1 after a stage's error, else 0
  std::uint64_t in_flight = 0;  // submitted, but neither delivered nor dropped yet

  std::uint64_t slots = 0;  // number of frames that the pipeline can hold

  DurationSummary latency;  // from submit to the end of the frame's last stage
  double elapsed_s = 0;     // from the first submit to the last completion
  // (completed - 1) / (last - first completion): excludes filling the pipeline
  double frames_per_second = 0;
  std::vector<StageStatistics> stages;

  /// A table for people: one line per stage, then the totals. Ends with a newline.
  [[nodiscard]] std::string table() const;

  /// One JSON object, keys named as the fields above.
  [[nodiscard]] std::string json() const;
};

}  // namespace edgepipe
