// SpanRing: the last spans of a run, in memory allocated once. Not thread-safe.
//
//   SpanRing ring(kTraceSpans);
//   ring.add({.frame = 7, .begin = begin, .end = Clock::now()});
//   std::vector<Span> last = ring.spans();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "edgepipe/pipeline_statistics.h"

namespace edgepipe {

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

}  // namespace edgepipe
