// NanoDetDecoder: turns the scores and distances of a NanoDet head into boxes.
//
//   Result<NanoDetDecoder> decoder = NanoDetDecoder::create({.width = 416, .height = 416,
//       .classes = 80, .bins = 11, .strides = {8, 16, 32}, .score_threshold = 0.4F,
//       .iou_threshold = 0.5F});
//   std::span<const Detection> boxes = decoder->decode(scores, distances);
//
// A head of stride s has ceil(height / s) x ceil(width / s) cells, row by row, each with its centre
// at ((column + 0.5) s, (row + 0.5) s). A cell is a candidate for every class that reaches
// the threshold; each of the sides left, top, right, bottom is the expectation of a softmax over
// `bins` distances 0, s, 2 s, ... (Generalized Focal Loss, Li et al. 2020). Boxes are clipped
// to the picture. Of two boxes of one class that overlap by more than `iou_threshold`, the one with
// the higher score is kept.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"

namespace edgepipe {

class NanoDetDecoder {
 public:
  struct Options {
    int width = 0;   // of the network's input, pixels
    int height = 0;  // the same
    int classes = 0;
    int bins = 0;
    std::vector<int> strides;
    float score_threshold = 0;  // a candidate needs at least this
    float iou_threshold = 0;
    std::size_t most_candidates = 1000;  // only the best ones enter suppression
    std::size_t most_detections = 100;
  };

  /// kInvalidArgument names an invalid option.
  static Result<NanoDetDecoder> create(const Options& options);

  /// Number of cells of the head with stride number `index`.
  [[nodiscard]] std::size_t cells(std::size_t index) const;

  /// Decodes one frame: per stride float32 [cells, classes] scores and [cells, 4 * bins] distances
  /// of exactly these sizes. The boxes, best first, are valid until the next call. Allocates
  /// nothing. One thread at a time.
  std::span<const Detection> decode(std::span<const std::span<const float>> scores,
                                    std::span<const std::span<const float>> distances);

 private:
  struct Candidate {
    float score;
    std::size_t stride_index;
    std::size_t cell;
    std::size_t label_index;
  };

  static bool better(const Candidate& one, const Candidate& other);
  void add(const Candidate& candidate);

  explicit NanoDetDecoder(const Options& options);
  [[nodiscard]] Detection box(const Candidate& candidate, std::span<const float> distances) const;
  [[nodiscard]] int columns(std::size_t index) const;
  [[nodiscard]] int rows(std::size_t index) const;

  Options options_;
  std::vector<Candidate> candidates_;
  std::vector<Detection> detections_;
};

/// Intersection over union of two boxes; 0 if they do not overlap.
float intersection_over_union(const Detection& one, const Detection& other);

}  // namespace edgepipe
