// PipelineStatistics and PipelineTrace: what a running pipeline has measured.
//
//   Pipeline::create(graph, memory, {.trace_spans = kTraceSpans});
//   ...
//   std::string table = pipeline.statistics().table();
//   Status status = pipeline.trace().write("trace.json");  // open it at https://ui.perfetto.dev
//
// The pipeline keeps only the last spans, so the memory of a trace does not depend on the run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

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

/// Bounds between which latencies are counted: the buckets of a Prometheus histogram.
inline constexpr std::array<double, 13> kLatencyBounds_ms = {1,   2.5, 5,    10,   25,   50,   100,
                                                             250, 500, 1000, 2500, 5000, 10000};

/// One stage of a pipeline, up to the moment of the snapshot.
struct StageStatistics {
  std::string name;
  std::vector<int> cores;     // that it may run on; empty: not pinned
  DurationSummary busy;       // of one run of the stage
  double utilisation = 0;     // share of the time from the first submit to the last completion
  std::uint64_t waiting = 0;  // frames that are ready for the stage and not started
  double device_wait_s = 0;   // of the time in which it was busy, the wait for its device
  double device_run_s = 0;    // of the same time, that in which its device worked
  std::uint64_t hangs = 0;    // runs of the device that missed their deadline
  std::uint64_t retries = 0;  // frames run again because the device hung
  std::uint64_t fallback_frames = 0;  // frames that the stage's fallback ran
  std::string fault;                  // the device's last failure; empty: none
};

/// A consistent snapshot of all counters.
struct PipelineStatistics {
  // submitted == delivered + dropped + failed + in_flight, always.
  std::uint64_t submitted = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;    // by cancel(), or because an earlier frame failed
  std::uint64_t failed = 0;     // 1 after a stage's error, else 0
  std::uint64_t in_flight = 0;  // submitted, but neither delivered nor dropped yet

  std::uint64_t slots = 0;  // number of frames that the pipeline can hold

  DurationSummary latency;  // from submit to the end of the frame's last stage
  // Frames whose latency is at most the bound of the same index, within 1.6 % of it.
  std::array<std::uint64_t, kLatencyBounds_ms.size()> latency_within{};
  double elapsed_s = 0;  // from the first submit to the last completion
  // (completed - 1) / (last - first completion): excludes filling the pipeline
  double frames_per_second = 0;
  std::vector<StageStatistics> stages;

  /// A table for people: one line per stage, then the totals. Ends with a newline.
  [[nodiscard]] std::string table() const;

  /// One JSON object, keys named as the fields above; without `latency_within`.
  [[nodiscard]] std::string json() const;
};

/// What one stage, or the caller, did with one frame.
struct Span {
  enum class Kind : std::uint8_t {
    kFill,   // the caller filled the inputs: from acquire() to submit()
    kStage,  // a stage ran
    kTake,   // the caller held the result: from next() to its release
  };
  std::uint64_t frame = 0;
  Clock::time_point begin;
  Clock::time_point end;
  std::uint32_t stage = 0;
  std::uint32_t thread = 0;  // index into PipelineTrace::threads
  Kind kind = Kind::kStage;
  bool failed = false;
};

/// The number of spans that programs keep: with five spans per frame at 30 frames per second, the
/// last 3.6 minutes, in 1.3 MB.
inline constexpr std::size_t kTraceSpans = 32768;

/// What happened to each frame and when: a copy of the spans, with everything that the viewers of
/// Chrome and Perfetto need to draw them.
struct PipelineTrace {
  struct Stage {
    std::string name;
    std::vector<std::size_t> producers;  // the stages it reads from; empty: only inputs
  };

  std::vector<std::string> threads;  // names of the threads that run stages
  std::vector<Stage> stages;
  std::vector<Span> spans;
  std::uint64_t first_frame = 0;  // earlier frames are missing or incomplete

  /// Trace Event JSON: a track per stage thread and one for the source, arrows along the graph's
  /// edges, results as asynchronous spans, counters of the frames that wait for each stage and of
  /// those that wait to be taken. Times are in microseconds since the first event.
  [[nodiscard]] std::string json() const;

  /// Writes json() to a file that appears only when it is complete.
  [[nodiscard]] Status write(const std::string& path) const;
};

}  // namespace edgepipe
