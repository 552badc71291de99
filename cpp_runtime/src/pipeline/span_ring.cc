#include "pipeline/span_ring.h"

#include <algorithm>

namespace edgepipe {

void SpanRing::add(const Span& span) {
  if (spans_.empty()) return;
  Span& place = spans_[static_cast<std::size_t>(added_ % spans_.size())];
  if (added_ >= spans_.size()) first_whole_frame_ = std::max(first_whole_frame_, place.frame + 1);
  place = span;
  ++added_;
}

std::vector<Span> SpanRing::spans() const {
  if (added_ <= spans_.size()) {
    return {spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(added_)};
  }
  std::vector<Span> ordered = spans_;
  const auto oldest = static_cast<std::ptrdiff_t>(added_ % spans_.size());
  std::rotate(ordered.begin(), ordered.begin() + oldest, ordered.end());
  return ordered;
}

}  // namespace edgepipe
