// ResultSelector: leaves out the boxes or classes that a ResultSelection does not name.
#pragma once

#include <string>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"

namespace edgepipe {

class ResultSelector {
 public:
  /// Keeps everything.
  ResultSelector() = default;

  /// For up to `most_detections` boxes with `most_points` points in all. `labels` are the bundle's.
  /// kInvalidArgument if the postprocessing gives neither boxes nor classes, leaves out better
  /// scores than the selection does, or has no such class.
  static Result<ResultSelector> create(const ResultSelection& selection,
                                       const Postprocess& postprocess,
                                       const std::vector<std::string>& labels,
                                       std::size_t most_detections, std::size_t most_points);

  /// The selected part of a result, in its order. The boxes are valid until the next call.
  /// Allocates nothing for results within the limits. One thread at a time.
  FrameResult select(const FrameResult& result);

 private:
  [[nodiscard]] bool selects(int label_index, float score) const;

  bool everything_ = true;
  float least_score_ = 0;
  std::vector<int> label_indices_;  // sorted; empty: all
  std::vector<Detection> detections_;
  std::vector<Point> points_;
  std::vector<ClassScore> classes_;
};

}  // namespace edgepipe
