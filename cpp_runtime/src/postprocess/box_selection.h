// BoxSelection: the best boxes of a frame, by score and without those that repeat a better one.
//
//   BoxSelection selection({.iou_threshold = 0.5F});
//   selection.clear();
//   selection.add({.score = 0.9F, .level = 0, .cell = 7, .anchor = 0, .label_index = 2});
//   selection.choose([&](const Candidate& candidate) { return box_of(candidate); });
//   for (const Detection& box : selection.boxes()) ...
//
// Of two boxes of one class that overlap by more than `iou_threshold`, the one with the higher
// score is kept. Ties go to the earlier level, cell, box of the cell and class, so that equal
// tensors give equal boxes on every machine. Allocates only when it is made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "edgepipe/postprocess.h"

namespace edgepipe {

/// A box that reached the threshold, before its corners are computed.
struct Candidate {
  float score = 0;
  std::uint32_t level = 0;
  std::uint32_t cell = 0;
  std::uint32_t anchor = 0;
  std::uint32_t label_index = 0;
};

/// Intersection over union of two boxes; 0 if they do not overlap.
float intersection_over_union(const Detection& one, const Detection& other);

class BoxSelection {
 public:
  struct Options {
    float iou_threshold = 0;
    std::size_t most_candidates = 1000;  // only the best ones enter suppression
    std::size_t most_detections = 100;
  };

  explicit BoxSelection(const Options& options);

  void clear();
  void add(const Candidate& candidate);

  /// Chooses among the candidates; `box_of` gives a candidate's box. A box with a side that is not
  /// a number is left out.
  template <typename BoxOf>
  void choose(const BoxOf& box_of) {
    sort();
    for (const Candidate& candidate : candidates_) {
      if (boxes_.size() == options_.most_detections) return;
      const Detection found = box_of(candidate);
      const bool is_box = found.left <= found.right && found.top <= found.bottom;
      const bool repeats = std::ranges::any_of(boxes_, [&](const Detection& kept) {
        return kept.label_index == found.label_index &&
               intersection_over_union(kept, found) > options_.iou_threshold;
      });
      if (!is_box || repeats) continue;
      boxes_.push_back(found);
      chosen_.push_back(candidate);
    }
  }

  /// Best first.
  [[nodiscard]] std::span<const Detection> boxes() const { return boxes_; }
  /// The candidates of boxes().
  [[nodiscard]] std::span<const Candidate> chosen() const { return chosen_; }

 private:
  static bool better(const Candidate& one, const Candidate& other);
  void sort();

  Options options_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> chosen_;
  std::vector<Detection> boxes_;
};

}  // namespace edgepipe
