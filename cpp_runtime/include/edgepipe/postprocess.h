// Postprocessor: turns a finished frame's output tensors into detections or classes.
//
//   Result<Postprocessor> postprocessor = Postprocessor::create(bundle);
//   const FrameResult result = postprocessor->run(frame);
//   std::string line = postprocessor->json_line(frame, result, "dog.jpg");
//
// The manifest's postprocessing selects the kind; "none" gives empty results.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/bundle.h"
#include "edgepipe/frame.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// A box in pixels, left-top to right-bottom.
struct Detection {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  float score = 0;
  int label_index = 0;
};

/// A landmark or keypoint of a detection, in pixels.
struct Point {
  float x = 0;
  float y = 0;
  float score = 1;  // 1 if the network gives none
};

struct ClassScore {
  int label_index = 0;
  float score = 0;        // as computed by the network
  float probability = 0;  // the score after the activation that the description names
};

/// What a frame shows: views into the postprocessor, valid until its next run. Best first.
struct FrameResult {
  std::span<const Detection> detections;
  std::span<const Point> points;  // as many for each detection, in their order
  std::span<const ClassScore> classes;
};

struct BoxHead;

/// Movable, not copyable.
class Postprocessor {
 public:
  /// Checks the tensors' shapes against the manifest's postprocessing; kCorrupt if they disagree.
  static Result<Postprocessor> create(const Bundle& bundle);
  Postprocessor(Postprocessor&&) noexcept;
  Postprocessor& operator=(Postprocessor&&) noexcept;
  ~Postprocessor();

  /// Computes a frame's results, boxes in pixels of the network's input. Allocates nothing. One
  /// thread at a time.
  FrameResult run(const OutputFrame& frame);

  /// The same results with boxes in pixels of the picture, which they do not exceed; valid until
  /// the next call. Allocates nothing. One thread at a time.
  FrameResult in_picture(const FrameResult& result, const Placement& placement);

  /// One line of JSON (without a newline): frame number, source, latency, and the results. Scores
  /// are rounded to 4 decimals, boxes to 1, milliseconds to 3.
  [[nodiscard]] std::string json_line(const OutputFrame& frame, const FrameResult& result,
                                      const std::string& source) const;

  /// The name of a class, or its number if the bundle has no name for it.
  [[nodiscard]] std::string label(int label_index) const;
  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }

 private:
  Postprocessor();

  std::vector<std::string> labels_;
  std::unique_ptr<BoxHead> boxes_;
  std::vector<std::span<const float>> tensors_;  // of boxes_
  std::size_t score_tensor_ = 0;                 // of a classifier
  std::string activation_;                       // the same
  std::vector<ClassScore> classes_;
  std::vector<Detection> in_picture_;
  std::vector<Point> points_in_picture_;
};

}  // namespace edgepipe
