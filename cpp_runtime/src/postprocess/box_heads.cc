#include "postprocess/box_heads.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postprocess/box_decoder.h"
#include "postprocess/head_layout.h"

namespace edgepipe {
namespace {

struct Kind {
  std::string_view name;
  std::string_view formula;
  BoxRule rule;
};

// Far more than any network has; indices of this many boxes fit into 32 bits.
constexpr std::uint64_t kMostBoxes = std::uint64_t{1} << 24;

constexpr std::array kKinds{
    Kind{"nanodet", "", BoxRule::kDistances},   Kind{"distances", "", BoxRule::kDistances},
    Kind{"anchors", "v3", BoxRule::kAnchorsV3}, Kind{"anchors", "v5", BoxRule::kAnchorsV5},
    Kind{"yolox", "", BoxRule::kOffsets},       Kind{"ssd", "", BoxRule::kPriors},
    Kind{"boxes", "", BoxRule::kCentreSize},    Kind{"boxes", "corners", BoxRule::kCorners},
    Kind{"centernet", "", BoxRule::kPeaks},
};

const Kind* kind_of(const Postprocess& wanted) {
  const Kind* found = nullptr;  // the last one that fits: "boxes" without a formula is the first
  for (const Kind& kind : kKinds) {
    if (kind.name != wanted.kind) continue;
    if (kind.formula == wanted.formula || (found == nullptr && kind.formula.empty())) found = &kind;
  }
  return found;
}

class BoxHead final : public Decoder {
 public:
  BoxHead(std::vector<std::size_t> tensors, const BoxDecoder::Options& options)
      : Decoder(std::move(tensors), options.selection.most_detections,
                options.selection.most_detections * options.points),
        decoder_(options) {}

  Result<FrameResult> decode(Tensors tensors) override {
    FrameResult result{.kind = ResultKind::kDetections};
    result.detections = decoder_.decode(tensors);
    result.points = decoder_.points();
    return result;
  }

 private:
  BoxDecoder decoder_;
};

class Builder {
 public:
  explicit Builder(const Manifest& manifest)
      : manifest_(manifest), wanted_(manifest.postprocess), kind_(*kind_of(wanted_)) {}

  Result<std::unique_ptr<Decoder>> build() {
    options_.rule = kind_.rule;
    options_.activation = activation_of(wanted_.activation);
    options_.width = manifest_.preprocess.width;
    options_.height = manifest_.preprocess.height;
    options_.bins = static_cast<std::size_t>(wanted_.bins);
    options_.cell_offset = wanted_.cell_offset;
    std::ranges::copy(wanted_.variances, options_.variances);
    options_.background = wanted_.background;
    options_.normalized = wanted_.normalized;
    options_.points = static_cast<std::size_t>(wanted_.points);
    options_.point_values = static_cast<std::size_t>(wanted_.point_values);
    options_.score_threshold = static_cast<float>(wanted_.score_threshold);
    options_.selection = {.iou_threshold = static_cast<float>(wanted_.iou_threshold),
                          .most_candidates = wanted_.most_candidates,
                          .most_detections = wanted_.most_boxes};
    Status status = kind_.rule == BoxRule::kCentreSize || kind_.rule == BoxRule::kCorners
                        ? add_decoded()
                        : add_grids();
    if (!status.ok()) return status;
    return std::unique_ptr<Decoder>(std::make_unique<BoxHead>(std::move(tensors_), options_));
  }

 private:
  /// A list of finished boxes is one row of cells without a step.
  Status add_decoded() {
    const std::vector<std::int64_t>& shape = manifest_.tensors[wanted_.outputs[0]].shape;
    const std::size_t points = options_.points * options_.point_values;
    const std::size_t least = 5 + points + std::size_t{wanted_.objectness};
    // [1, boxes, values] or [1, values, boxes]: there are more boxes than values.
    BoxDecoder::Level level;
    const auto a = static_cast<std::size_t>(shape[shape.size() - 2]);
    const auto b = static_cast<std::size_t>(shape[shape.size() - 1]);
    level.columns = std::max(a, b);
    const std::optional<HeadField> all = field(wanted_.outputs[0], {.columns = level.columns});
    if (!all || all->values < least) {
      return disagrees(wanted_.outputs[0], std::to_string(least) + " values or more of each box");
    }
    level.box = all->part(0, 4);
    std::size_t next = 4;
    if (wanted_.objectness) level.objectness = all->part(next++, 1);
    level.scores = all->part(next, all->values - next - points);
    level.points = all->part(all->values - points, points);
    options_.levels.push_back(std::move(level));
    return {};
  }

  Status add_grids() {
    const std::size_t count = std::max(wanted_.strides.size(), wanted_.grids.size());
    std::vector<HeadShape> shapes;
    for (std::size_t index = 0; index < count; ++index) {
      BoxDecoder::Level level;
      if (wanted_.grids.empty()) {
        const auto stride = static_cast<int>(wanted_.strides[index]);
        level.columns = static_cast<std::size_t>((options_.width + stride - 1) / stride);
        level.rows = static_cast<std::size_t>((options_.height + stride - 1) / stride);
        level.step_x = level.step_y = stride;
      } else {
        level.columns = level.rows = static_cast<std::size_t>(wanted_.grids[index]);
        level.step_x = static_cast<double>(options_.width) / static_cast<double>(level.columns);
        level.step_y = static_cast<double>(options_.height) / static_cast<double>(level.rows);
      }
      level.per_cell = static_cast<std::size_t>(wanted_.per_cell);
      if (index < wanted_.anchors.size()) {
        level.anchors = wanted_.anchors[index];
        level.per_cell = level.anchors.size() / 2;
      }
      shapes.push_back({.columns = level.columns, .rows = level.rows, .per_cell = level.per_cell});
      options_.levels.push_back(std::move(level));
    }
    std::uint64_t boxes = 0;
    for (HeadShape& shape : shapes) {
      shape.before = static_cast<std::size_t>(boxes);
      boxes += std::uint64_t{shape.columns} * shape.rows * shape.per_cell;
      if (boxes > kMostBoxes) {
        return refused_postprocess("has " + std::to_string(boxes) +
                                   " boxes or more, expected at most " +
                                   std::to_string(kMostBoxes));
      }
    }
    const auto total = static_cast<std::size_t>(boxes);
    for (std::size_t index = 0; index < count; ++index) {
      HeadShape list = shapes[index];
      list.total = total;
      HeadShape own = shapes[index];
      own.before = 0;
      const auto find = [&](const std::vector<std::size_t>& names) -> std::optional<HeadField> {
        if (names.empty()) return std::nullopt;
        const bool shared = names.size() == 1 && count > 1;
        last_ = names[shared ? 0 : index];
        return field(last_, shared ? list : own);
      };
      Status status = add_fields(options_.levels[index], find);
      if (!status.ok()) return status;
    }
    return {};
  }

  template <typename Find>
  Status add_fields(BoxDecoder::Level& level, const Find& find) {
    const std::size_t sides = kind_.rule == BoxRule::kDistances ? 4 * options_.bins
                              : kind_.rule == BoxRule::kPeaks   ? 2
                                                                : 4;
    const auto cells = [&](const std::string& values) {
      const std::string boxes = " of " + std::to_string(level.per_cell) + " boxes";
      return values + (level.per_cell > 1 ? boxes : "") + " in each of " +
             std::to_string(level.rows) + "x" + std::to_string(level.columns) + " cells";
    };
    if (!wanted_.outputs.empty()) {  // everything in one tensor
      const std::optional<HeadField> all = find(wanted_.outputs);
      const bool objectness = kind_.name == "anchors" || kind_.name == "yolox";
      const std::size_t before_scores = sides + std::size_t{objectness};
      if (!all || all->values <= before_scores) {
        return disagrees(last_, cells(std::to_string(before_scores + 1) + " values or more"));
      }
      level.box = all->part(0, sides);
      if (objectness) level.objectness = all->part(sides, 1);
      level.scores = all->part(before_scores, all->values - before_scores);
    } else {
      const std::optional<HeadField> scores = find(wanted_.scores);
      if (!scores || scores->values <= std::size_t{options_.background}) {
        return disagrees(last_, cells("scores"));
      }
      level.scores = *scores;
      const std::optional<HeadField> box = find(wanted_.distances);
      if (!box || box->values != sides) {
        return disagrees(last_, cells(std::to_string(sides) + " values"));
      }
      level.box = *box;
    }
    if (!wanted_.centers.empty()) {
      const std::optional<HeadField> centre = find(wanted_.centers);
      if (!centre || centre->values != 2) return disagrees(last_, cells("2 values"));
      level.centre = *centre;
    }
    if (!wanted_.landmarks.empty()) {
      const std::optional<HeadField> points = find(wanted_.landmarks);
      const std::size_t values = options_.points * options_.point_values;
      if (!points || points->values != values) {
        return disagrees(last_, cells(std::to_string(values) + " values"));
      }
      level.points = *points;
    }
    return {};
  }

  /// The field of a tensor, which becomes one of the decoder's.
  std::optional<HeadField> field(std::size_t tensor, const HeadShape& shape) {
    std::optional<HeadField> found = locate(manifest_.tensors[tensor].shape, shape);
    if (!found) return std::nullopt;
    const auto known = std::ranges::find(tensors_, tensor);
    found->tensor = static_cast<std::size_t>(known - tensors_.begin());
    if (known == tensors_.end()) tensors_.push_back(tensor);
    return found;
  }

  [[nodiscard]] Status disagrees(std::size_t tensor, const std::string& expected) const {
    return refused_tensor(manifest_.tensors[tensor], expected);
  }

  const Manifest& manifest_;
  const Postprocess& wanted_;
  const Kind& kind_;
  BoxDecoder::Options options_;
  std::vector<std::size_t> tensors_;
  std::size_t last_ = 0;  // the tensor looked at
};

}  // namespace

bool gives_boxes(const Postprocess& postprocess) { return kind_of(postprocess) != nullptr; }

Result<std::unique_ptr<Decoder>> make_box_decoder(const Manifest& manifest) {
  return Builder(manifest).build();
}

}  // namespace edgepipe
