#include "session/detect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>

namespace edgepipe {
namespace {

Status invalid(const std::string& text) {
  return Status(Code::kInvalidArgument, "nanodet decoder: " + text);
}

/// The mean bin of a softmax over `logits`; the largest is subtracted so that exp cannot overflow.
float expectation(std::span<const float> logits) {
  const float largest = *std::ranges::max_element(logits);
  float total = 0;
  float weighted = 0;
  for (std::size_t bin = 0; bin < logits.size(); ++bin) {
    const float weight = std::exp(logits[bin] - largest);
    total += weight;
    weighted += weight * static_cast<float>(bin);
  }
  return weighted / total;
}

}  // namespace

float intersection_over_union(const Detection& one, const Detection& other) {
  const float width = std::min(one.right, other.right) - std::max(one.left, other.left);
  const float height = std::min(one.bottom, other.bottom) - std::max(one.top, other.top);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Detection& box) {
    return (box.right - box.left) * (box.bottom - box.top);
  };
  const float common = width * height;
  return common / (area(one) + area(other) - common);
}

Result<NanoDetDecoder> NanoDetDecoder::create(const Options& options) {
  if (options.width < 1 || options.height < 1) {
    return invalid("the input is " + std::to_string(options.width) + "x" +
                   std::to_string(options.height) + " pixels, expected a positive size");
  }
  if (options.classes < 1 || options.bins < 2 || options.strides.empty()) {
    return invalid(std::to_string(options.classes) + " classes, " + std::to_string(options.bins) +
                   " bins, " + std::to_string(options.strides.size()) +
                   " strides, expected at least 1, 2 and 1");
  }
  for (const int stride : options.strides) {
    if (stride < 1) return invalid("stride " + std::to_string(stride) + ", expected at least 1");
  }
  return NanoDetDecoder(options);
}

NanoDetDecoder::NanoDetDecoder(const Options& options) : options_(options) {
  candidates_.reserve(options_.most_candidates);
  detections_.reserve(options_.most_detections);
}

int NanoDetDecoder::columns(std::size_t index) const {
  return (options_.width + options_.strides[index] - 1) / options_.strides[index];
}

int NanoDetDecoder::rows(std::size_t index) const {
  return (options_.height + options_.strides[index] - 1) / options_.strides[index];
}

std::size_t NanoDetDecoder::cells(std::size_t index) const {
  return static_cast<std::size_t>(columns(index)) * static_cast<std::size_t>(rows(index));
}

/// The order of suppression. Ties go to the earlier stride, cell and class, so that equal tensors
/// give equal boxes on every machine.
bool NanoDetDecoder::better(const Candidate& one, const Candidate& other) {
  return std::tuple(-one.score, one.stride_index, one.cell, one.label_index) <
         std::tuple(-other.score, other.stride_index, other.cell, other.label_index);
}

/// Keeps the best `most_candidates`; the worst of them is at the front of the heap.
void NanoDetDecoder::add(const Candidate& candidate) {
  if (candidates_.size() == options_.most_candidates) {
    if (!better(candidate, candidates_.front())) return;
    std::ranges::pop_heap(candidates_, better);
    candidates_.pop_back();
  }
  candidates_.push_back(candidate);
  std::ranges::push_heap(candidates_, better);
}

std::span<const Detection> NanoDetDecoder::decode(
    std::span<const std::span<const float>> scores,
    std::span<const std::span<const float>> distances) {
  const auto classes = static_cast<std::size_t>(options_.classes);
  candidates_.clear();
  for (std::size_t index = 0; index < options_.strides.size(); ++index) {
    const std::size_t values = cells(index) * classes;
    for (std::size_t position = 0; position < values; ++position) {
      const float score = scores[index][position];
      if (score < options_.score_threshold) continue;
      add({.score = score,
           .stride_index = index,
           .cell = position / classes,
           .label_index = position % classes});
    }
  }
  std::ranges::sort_heap(candidates_, better);

  detections_.clear();
  for (const Candidate& candidate : candidates_) {
    if (detections_.size() == options_.most_detections) break;
    const std::size_t values = 4 * static_cast<std::size_t>(options_.bins);
    const Detection found =
        box(candidate, distances[candidate.stride_index].subspan(candidate.cell * values, values));
    const bool suppressed = std::ranges::any_of(detections_, [&](const Detection& kept) {
      return kept.label_index == found.label_index &&
             intersection_over_union(kept, found) > options_.iou_threshold;
    });
    if (!suppressed) detections_.push_back(found);
  }
  return detections_;
}

Detection NanoDetDecoder::box(const Candidate& candidate, std::span<const float> distances) const {
  const auto bins = static_cast<std::size_t>(options_.bins);
  const auto stride = static_cast<float>(options_.strides[candidate.stride_index]);
  std::array<float, 4> sides{};
  for (std::size_t side = 0; side < sides.size(); ++side) {
    sides[side] = expectation(distances.subspan(side * bins, bins)) * stride;
  }
  const auto row_cells = static_cast<std::size_t>(columns(candidate.stride_index));
  const std::size_t row = candidate.cell / row_cells;
  const std::size_t column = candidate.cell % row_cells;
  const float x = (static_cast<float>(column) + 0.5F) * stride;
  const float y = (static_cast<float>(row) + 0.5F) * stride;
  const auto width = static_cast<float>(options_.width);
  const auto height = static_cast<float>(options_.height);
  return {.left = std::clamp(x - sides[0], 0.0F, width),
          .top = std::clamp(y - sides[1], 0.0F, height),
          .right = std::clamp(x + sides[2], 0.0F, width),
          .bottom = std::clamp(y + sides[3], 0.0F, height),
          .score = candidate.score,
          .label_index = static_cast<int>(candidate.label_index)};
}

}  // namespace edgepipe
