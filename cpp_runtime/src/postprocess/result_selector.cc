#include "postprocess/result_selector.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <sstream>
#include <system_error>

#include "postprocess/box_heads.h"

namespace edgepipe {
namespace {

/// Whether results of this kind have a score and a label each.
bool is_selectable(const Postprocess& postprocess) {
  const std::string& kind = postprocess.kind;
  if (kind == "own") return postprocess.gives == "boxes" || postprocess.gives == "classes";
  return gives_boxes(postprocess) || kind == "classify" || kind == "db";
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// The first names, as many as fit into a line of an error.
std::string some_of(const std::vector<std::string>& labels) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t index = 0; index < std::min(kMost, labels.size()); ++index) {
    text += (index == 0 ? "" : ", ") + labels[index];
  }
  if (labels.size() > kMost) text += " ... (" + std::to_string(labels.size()) + " classes)";
  return text;
}

/// The index of a class: that of its name, or, if the bundle has no names, its number.
std::optional<int> index_of(const std::string& label, const std::vector<std::string>& labels) {
  const auto found = std::ranges::find(labels, label);
  if (found != labels.end()) return static_cast<int>(found - labels.begin());
  int number = -1;
  const char* const end = label.data() + label.size();
  const auto [last, error] = std::from_chars(label.data(), end, number);
  const bool is_number = error == std::errc() && last == end && number >= 0;
  return labels.empty() && is_number ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<ResultSelector> ResultSelector::create(const ResultSelection& selection,
                                              const Postprocess& postprocess,
                                              const std::vector<std::string>& labels,
                                              std::size_t most_detections,
                                              std::size_t most_points) {
  ResultSelector made;
  if (selection.least_score == 0 && selection.labels.empty()) return made;
  if (!is_selectable(postprocess)) {
    return Status(Code::kInvalidArgument,
                  "results of the kind '" + postprocess.kind +
                      "' cannot be selected by score or label, expected boxes or classes",
                  "take all results of this bundle");
  }
  if (selection.least_score != 0 && selection.least_score < postprocess.score_threshold) {
    return Status(Code::kInvalidArgument,
                  "least score " + number_text(selection.least_score) + ", expected at least " +
                      number_text(postprocess.score_threshold) +
                      ", below which the bundle itself leaves boxes out",
                  "lower score_threshold in the description and build the bundle again");
  }
  for (const std::string& label : selection.labels) {
    const std::optional<int> index = index_of(label, labels);
    if (!index) {
      return Status(Code::kInvalidArgument,
                    "the bundle has no class '" + label + "', expected " +
                        (labels.empty() ? "a number, because its classes have no names"
                                        : "one of " + some_of(labels)),
                    "name classes as the results do");
    }
    made.label_indices_.push_back(*index);
  }
  std::ranges::sort(made.label_indices_);
  made.everything_ = false;
  made.least_score_ = static_cast<float>(selection.least_score);
  made.detections_.reserve(most_detections);
  made.points_.reserve(most_points);
  made.classes_.reserve(static_cast<std::size_t>(std::max(postprocess.top, postprocess.most)));
  return made;
}

FrameResult ResultSelector::select(const FrameResult& result) {
  if (everything_) return result;
  FrameResult selected = result;
  detections_.clear();
  points_.clear();
  const std::size_t each =
      result.detections.empty() ? 0 : result.points.size() / result.detections.size();
  for (std::size_t index = 0; index < result.detections.size(); ++index) {
    const Detection& found = result.detections[index];
    if (!selects(found.label_index, found.score)) continue;
    detections_.push_back(found);
    const std::span<const Point> points = result.points.subspan(each * index, each);
    points_.insert(points_.end(), points.begin(), points.end());
  }
  classes_.clear();
  for (const ClassScore& found : result.classes) {
    if (selects(found.label_index, found.probability)) classes_.push_back(found);
  }
  selected.detections = detections_;
  selected.points = points_;
  selected.classes = classes_;
  return selected;
}

bool ResultSelector::selects(int label_index, float score) const {
  return score >= least_score_ &&
         (label_indices_.empty() || std::ranges::binary_search(label_indices_, label_index));
}

}  // namespace edgepipe
