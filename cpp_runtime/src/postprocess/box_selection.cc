#include "postprocess/box_selection.h"

#include <tuple>

namespace edgepipe {

float intersection_over_union(const Detection& one, const Detection& other) {
  const float width = std::min(one.right, other.right) - std::max(one.left, other.left);
  const float height = std::min(one.bottom, other.bottom) - std::max(one.top, other.top);
  if (width <= 0 || height <= 0) return 0;
  // In double, whose products of float32 are exact: the same result with and without fused
  // multiplication.
  const auto area = [](const Detection& box) {
    return static_cast<double>(box.right - box.left) * static_cast<double>(box.bottom - box.top);
  };
  const double common = static_cast<double>(width) * static_cast<double>(height);
  return static_cast<float>(common / (area(one) + area(other) - common));
}

BoxSelection::BoxSelection(const Options& options) : options_(options) {
  candidates_.reserve(options_.most_candidates);
  chosen_.reserve(options_.most_detections);
  boxes_.reserve(options_.most_detections);
}

void BoxSelection::clear() {
  candidates_.clear();
  chosen_.clear();
  boxes_.clear();
}

bool BoxSelection::better(const Candidate& one, const Candidate& other) {
  return std::tuple(-one.score, one.level, one.cell, one.anchor, one.label_index) <
         std::tuple(-other.score, other.level, other.cell, other.anchor, other.label_index);
}

/// Keeps the best `most_candidates`; the worst of them is at the front of the heap.
void BoxSelection::add(const Candidate& candidate) {
  if (candidates_.size() == options_.most_candidates) {
    if (!better(candidate, candidates_.front())) return;
    std::ranges::pop_heap(candidates_, better);
    candidates_.pop_back();
  }
  candidates_.push_back(candidate);
  std::ranges::push_heap(candidates_, better);
}

void BoxSelection::sort() { std::ranges::sort_heap(candidates_, better); }

}  // namespace edgepipe
