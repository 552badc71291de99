#include "edgepipe/postprocess.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "postprocess/box_heads.h"
#include "postprocess/classify.h"

namespace edgepipe {
namespace {

std::span<const float> floats(std::span<const std::byte> bytes) {
  // Slot buffers are aligned to at least 64 bytes and only ever contain this tensor.
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// `value` to as many decimals as `unit` has zeros, ties to even.
double rounded(double value, double unit) { return std::nearbyint(value * unit) / unit; }

}  // namespace

Postprocessor::Postprocessor() = default;
Postprocessor::Postprocessor(Postprocessor&&) noexcept = default;
Postprocessor& Postprocessor::operator=(Postprocessor&&) noexcept = default;
Postprocessor::~Postprocessor() = default;

Result<Postprocessor> Postprocessor::create(const Bundle& bundle) {
  Postprocessor made;
  Result<std::vector<std::string>> labels = bundle.labels();
  if (!labels.ok()) return labels.status();
  made.labels_ = std::move(*labels);
  const Manifest& manifest = bundle.manifest();
  if (gives_boxes(manifest.postprocess)) {
    Result<BoxHead> head = make_box_decoder(manifest);
    if (!head.ok()) return head.status();
    const BoxSelection::Options limits;
    made.boxes_ = std::make_unique<BoxHead>(*std::move(head));
    made.tensors_.resize(made.boxes_->tensors.size());
    made.in_picture_.reserve(limits.most_detections);
    made.points_in_picture_.reserve(limits.most_detections *
                                    static_cast<std::size_t>(manifest.postprocess.points));
  }
  if (manifest.postprocess.kind == "classify") {
    made.score_tensor_ = manifest.outputs[0];
    made.activation_ = manifest.postprocess.activation;
    const std::size_t classes = manifest.tensors[made.score_tensor_].bytes / sizeof(float);
    made.classes_.resize(std::min(classes, static_cast<std::size_t>(manifest.postprocess.top)));
  }
  return made;
}

FrameResult Postprocessor::run(const OutputFrame& frame) {
  FrameResult result;
  if (boxes_) {
    for (std::size_t index = 0; index < tensors_.size(); ++index) {
      tensors_[index] = floats(frame.tensor(boxes_->tensors[index]));
    }
    result.detections = boxes_->decoder.decode(tensors_);
    result.points = boxes_->decoder.points();
  } else if (!classes_.empty()) {
    top_classes(floats(frame.tensor(score_tensor_)), activation_of(activation_), classes_);
    result.classes = classes_;
  }
  return result;
}

std::string Postprocessor::label(int label_index) const {
  const auto index = static_cast<std::size_t>(label_index);
  return index < labels_.size() ? labels_[index] : std::to_string(label_index);
}

FrameResult Postprocessor::in_picture(const FrameResult& result, const Placement& placement) {
  const auto width = static_cast<float>(placement.width);
  const auto height = static_cast<float>(placement.height);
  in_picture_.clear();
  for (Detection box : result.detections) {
    box.left = std::clamp(placement.picture_x(box.left), 0.0F, width);
    box.top = std::clamp(placement.picture_y(box.top), 0.0F, height);
    box.right = std::clamp(placement.picture_x(box.right), 0.0F, width);
    box.bottom = std::clamp(placement.picture_y(box.bottom), 0.0F, height);
    in_picture_.push_back(box);
  }
  FrameResult mapped = result;
  mapped.detections = in_picture_;
  points_in_picture_.clear();
  for (Point point : result.points) {
    point.x = placement.picture_x(point.x);
    point.y = placement.picture_y(point.y);
    points_in_picture_.push_back(point);
  }
  mapped.points = points_in_picture_;
  return mapped;
}

std::string Postprocessor::json_line(const OutputFrame& frame, const FrameResult& result,
                                     const std::string& source) const {
  // Indexing a null value turns it into an object first, and if the memory for that is missing, its
  // destructor crashes. So objects and arrays are made as such.
  auto line = nlohmann::ordered_json::object();
  line["frame"] = frame.id();
  line["source"] = source;
  line["latency_ms"] =
      rounded(std::chrono::duration<double, std::milli>(frame.latency()).count(), 1e3);
  if (boxes_) {
    const std::size_t each =
        result.detections.empty() ? 0 : result.points.size() / result.detections.size();
    std::size_t next = 0;
    line["detections"] = nlohmann::ordered_json::array();
    for (const Detection& found : result.detections) {
      line["detections"].push_back({{"label", label(found.label_index)},
                                    {"label_index", found.label_index},
                                    {"score", rounded(found.score, 1e4)},
                                    {"box",
                                     {rounded(found.left, 10), rounded(found.top, 10),
                                      rounded(found.right, 10), rounded(found.bottom, 10)}}});
      if (each == 0) continue;
      auto points = nlohmann::ordered_json::array();
      for (const Point& point : result.points.subspan(each * next++, each)) {
        points.push_back({rounded(point.x, 10), rounded(point.y, 10), rounded(point.score, 1e4)});
      }
      line["detections"].back()["points"] = std::move(points);
    }
  } else if (!result.classes.empty()) {
    line["classes"] = nlohmann::ordered_json::array();
    for (const ClassScore& found : result.classes) {
      line["classes"].push_back({{"label", label(found.label_index)},
                                 {"label_index", found.label_index},
                                 {"score", rounded(found.score, 1e4)},
                                 {"probability", rounded(found.probability, 1e4)}});
    }
  }
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace edgepipe
