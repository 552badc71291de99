// Postprocessor: turns a finished frame's output tensors into what they mean: boxes, classes,
// points, a map of classes, or text.
//
//   Result<Postprocessor> postprocessor = Postprocessor::create(bundle, {});
//   Result<FrameResult> result = postprocessor->run(frame);
//   std::string line = postprocessor->json_line(frame, *result, "dog.jpg");
//
// The manifest's postprocessing selects the kind; "none" gives empty results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// The class of every cell of a map that covers the network's input, row by row.
struct ClassMap {
  std::span<const std::uint8_t> classes;
  int width = 0;  // cells
  int height = 0;
  // The cells that show the picture: from `left` and `top` to before `right` and `bottom`.
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

/// What the manifest's postprocessing gives; kNone: only tensors.
enum class ResultKind { kNone, kDetections, kClasses, kPoints, kClassMap, kText };

/// What a frame shows: views into the postprocessor, valid until its next run. Best first. `kind`
/// says which of the others are filled.
struct FrameResult {
  ResultKind kind = ResultKind::kNone;
  std::span<const Detection> detections = {};
  // As many for each detection, in their order; of keypoints one for each label.
  std::span<const Point> points = {};
  std::span<const ClassScore> classes = {};
  ClassMap map = {};
  std::string_view text = {};
  float text_score = 0;  // mean probability of the characters, from 0 to 1
};

/// Which boxes or classes a user wants to see. The default is all.
struct ResultSelection {
  double least_score = 0;           // of a box; of a class, its probability
  std::vector<std::string> labels;  // names of classes, or their numbers without names; empty: all
};

class Decoder;
class ResultSelector;

/// Movable, not copyable.
class Postprocessor {
 public:
  struct Options {
    bool leaves_python = false;  // a decoder that is also there in Python is left to the caller
    ResultSelection selection = {};
  };

  /// Checks the tensors' shapes against the manifest's postprocessing; kCorrupt if they disagree.
  /// Loads the library of a user's own decoder: kUnsupported if the bundle has none for this
  /// machine, kNotFound without its function. If the decoder is left to the caller, run() gives no
  /// results. kInvalidArgument if the bundle's results cannot be selected as wanted.
  static Result<Postprocessor> create(const Bundle& bundle, const Options& options);
  Postprocessor(Postprocessor&&) noexcept;
  Postprocessor& operator=(Postprocessor&&) noexcept;
  ~Postprocessor();

  /// Computes a frame's selected results, boxes and points in pixels of the network's input. Fails
  /// only if a user's own decoder does; names the frame. Allocates nothing unless it fails. One
  /// thread at a time.
  Result<FrameResult> run(const OutputFrame& frame);

  /// The same results with boxes and points in pixels of the picture, which boxes do not exceed,
  /// and with the cells of the map that show it; valid until the next call. Allocates nothing. One
  /// thread at a time.
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
  std::unique_ptr<Decoder> decoder_;             // null: plain tensors
  std::unique_ptr<ResultSelector> selector_;     // the same
  std::vector<std::span<const float>> tensors_;  // of decoder_
  int width_ = 0;                                // of the network's input, pixels
  int height_ = 0;
  std::vector<Detection> in_picture_;
  std::vector<Point> points_in_picture_;
};

}  // namespace edgepipe
