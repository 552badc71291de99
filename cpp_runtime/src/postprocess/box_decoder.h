// BoxDecoder: turns the tensors of any detection head into boxes and their points.
//
//   Result<BoxDecoder> decoder = BoxDecoder::create(options);
//   std::span<const Detection> boxes = decoder->decode(tensors);
//   std::span<const Point> points = decoder->points();  // options.points for each box
//
// A head has cells, row by row; a cell predicts one or more boxes, each with a score for every
// class. What differs between networks is the rule by which values become a box (BoxRule), and
// which function the network leaves to the decoder (Activation). All arithmetic is in double and
// rounded to float32 once, so that equal tensors give equal boxes on every machine.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"
#include "postprocess/activation.h"
#include "postprocess/box_selection.h"
#include "postprocess/head_layout.h"

namespace edgepipe {

/// How the values of a box become its sides. (x, y) is the cell's centre, s its step, and w x h the
/// box's anchor, all in pixels; a, b, c, d are the values.
enum class BoxRule {
  kDistances,   // x - s a, y - s b, x + s c, y + s d; each a mean of `bins` values (Li et al. 2020)
  kAnchorsV3,   // centre: column + sigmoid(a); size: w exp(c) (Redmon and Farhadi 2018)
  kAnchorsV5,   // centre: column - 0.5 + 2 sigmoid(a); size: w (2 sigmoid(c))^2
  kOffsets,     // centre: column + a; size: s exp(c) (Ge et al. 2021)
  kPriors,      // centre: x + a v w; size: w exp(c v') (Liu et al. 2016)
  kCentreSize,  // a, b, c, d are centre and size themselves
  kCorners,     // a, b, c, d are left, top, right and bottom
  kPeaks,       // centre: column + a, size: s c, at the peaks of the scores (Zhou et al. 2019)
};

class BoxDecoder {
 public:
  /// The cells of one head.
  struct Level {
    std::size_t columns = 1;
    std::size_t rows = 1;
    double step_x = 1;  // pixels from cell to cell
    double step_y = 1;
    std::size_t per_cell = 1;          // boxes
    std::vector<double> anchors = {};  // width and height for each of them; empty: no anchors
    HeadField box = {};                // the values of the rule
    HeadField centre = {};             // kPeaks: the offsets of the centre; no values: none
    std::optional<HeadField> objectness = {};  // multiplied with the scores
    HeadField scores = {};                     // one value per class
    HeadField points = {};                     // of each box
  };

  struct Options {
    std::vector<Level> levels = {};
    BoxRule rule = BoxRule::kDistances;
    Activation activation = Activation::kNone;
    int width = 0;                 // of the network's input, pixels
    int height = 0;                // the same
    std::size_t bins = 1;          // kDistances: 1 for plain distances
    double cell_offset = 0.5;      // where a cell's centre is, from 0 to 1
    double variances[2] = {1, 1};  // kPriors: of centre and size
    bool background = false;       // the first score belongs to no class
    bool normalized = false;       // kCentreSize, kCorners: 1 is the whole input, not a pixel
    std::size_t points = 0;        // of each box
    std::size_t point_values = 2;  // 3: each has a score, too
    float score_threshold = 0;     // a box needs at least this
    BoxSelection::Options selection = {};
  };

  explicit BoxDecoder(const Options& options);

  /// Decodes one frame. `tensors` are those that the fields refer to, each of its whole size. The
  /// boxes, best first, are valid until the next call. Allocates nothing. One thread at a time.
  std::span<const Detection> decode(std::span<const std::span<const float>> tensors);

  /// The points of the boxes, `Options::points` for each; valid as long as they are.
  [[nodiscard]] std::span<const Point> points() const { return points_; }

 private:
  using Tensors = std::span<const std::span<const float>>;

  void scan(const Level& level, std::uint32_t index, Tensors tensors);
  void scan_softmax(const Level& level, std::uint32_t index, Tensors tensors);
  void consider(double score, std::uint32_t level, std::size_t cell, std::size_t anchor,
                std::size_t value);
  [[nodiscard]] bool is_peak(const Level& level, std::span<const float> data, std::size_t cell,
                             std::size_t value) const;
  [[nodiscard]] Detection box(const Candidate& candidate, Tensors tensors) const;
  [[nodiscard]] Point point(const Candidate& candidate, std::size_t number, Tensors tensors) const;

  Options options_;
  double least_logit_;  // a sigmoid of less is surely below the threshold
  BoxSelection selection_;
  std::vector<double> objectness_;  // of the boxes of one level
  std::vector<Point> points_;
};

}  // namespace edgepipe
