// PipelineTrace: what happened to each frame and when, for the viewers of Chrome and Perfetto.
//
//   Pipeline::create(graph, memory, {.trace_spans = 65536});
//   ...
//   Status status = pipeline.trace().write("trace.json");  // open it at https://ui.perfetto.dev
//
// The pipeline keeps the last spans in a SpanRing, so the memory of a trace does not depend on the
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

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
  Kind kind = Kind::kStage;
  bool failed = false;
};

/// The number of spans that programs keep: with five spans per frame at 30 frames per second, the
/// last 3.6 minutes, in 1.3 MB.
inline constexpr std::size_t kTraceSpans = 32768;

/// The last spans of a run, in memory allocated once. Not thread-safe.
class SpanRing {
 public:
  /// Holds up to `spans` spans. With 0, add() does nothing.
  explicit SpanRing(std::size_t spans) : spans_(spans) {}

  [[nodiscard]] bool enabled() const { return !spans_.empty(); }

  /// Adds a span and overwrites the oldest one if the ring is full. Never allocates.
  void add(const Span& span);

  void clear() { *this = SpanRing(spans_.size()); }

  /// The spans kept, in the order in which they were added.
  [[nodiscard]] std::vector<Span> spans() const;

  /// The first frame of which no span has been overwritten.
  [[nodiscard]] std::uint64_t first_whole_frame() const { return first_whole_frame_; }

 private:
  std::vector<Span> spans_;
  std::uint64_t added_ = 0;
  std::uint64_t first_whole_frame_ = 0;
};

/// A copy of the spans, with everything needed to draw them.
struct PipelineTrace {
  struct Stage {
    std::string name;
    std::size_t thread = 0;              // index into `threads`
    std::vector<std::size_t> producers;  // the stages it reads from; empty: only inputs
  };

  std::vector<std::string> threads;  // names of the stages' threads
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
