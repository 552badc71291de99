#include "edgepipe/postprocess.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "postprocess/class_map.h"
#include "postprocess/decoder.h"
#include "postprocess/own_decoder.h"
#include "postprocess/result_selector.h"

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

Result<Postprocessor> Postprocessor::create(const Bundle& bundle, const Options& options) {
  Postprocessor made;
  Result<std::vector<std::string>> labels = bundle.labels();
  if (!labels.ok()) return labels.status();
  made.labels_ = std::move(*labels);
  const Manifest& manifest = bundle.manifest();
  const bool is_own = manifest.postprocess.kind == "own";
  if (is_own && options.leaves_python && !manifest.postprocess.function.empty()) return made;
  Result<std::unique_ptr<Decoder>> decoder =
      is_own ? open_own_decoder(bundle) : make_decoder(manifest, made.labels_);
  if (!decoder.ok()) return decoder.status();
  made.decoder_ = *std::move(decoder);
  made.width_ = manifest.preprocess.width;
  made.height_ = manifest.preprocess.height;
  if (made.decoder_) {
    made.tensors_.resize(made.decoder_->tensors().size());
    made.in_picture_.reserve(made.decoder_->most_detections());
    made.points_in_picture_.reserve(made.decoder_->most_points());
  }
  Result<ResultSelector> selector =
      ResultSelector::create(options.selection, manifest.postprocess, made.labels_,
                             made.in_picture_.capacity(), made.points_in_picture_.capacity());
  if (!selector.ok()) return selector.status();
  made.selector_ = std::make_unique<ResultSelector>(*std::move(selector));
  return made;
}

Result<FrameResult> Postprocessor::run(const OutputFrame& frame) {
  if (!decoder_) return FrameResult();
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    tensors_[index] = floats(frame.tensor(decoder_->tensors()[index]));
  }
  Result<FrameResult> result = decoder_->decode(tensors_);
  if (result.ok()) return selector_->select(*result);
  return result.status().with_context("postprocessing of frame " + std::to_string(frame.id()));
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
  points_in_picture_.clear();
  for (Point point : result.points) {
    point.x = placement.picture_x(point.x);
    point.y = placement.picture_y(point.y);
    points_in_picture_.push_back(point);
  }
  FrameResult mapped = result;
  mapped.detections = in_picture_;
  mapped.points = points_in_picture_;
  if (mapped.kind == ResultKind::kClassMap) {
    mapped.map = within_picture(mapped.map, width_, height_, placement);
  }
  return mapped;
}

namespace {

using Json = nlohmann::ordered_json;
using Label = std::function<std::string(int)>;

Json detections_json(const FrameResult& result, const Label& label) {
  const std::size_t each =
      result.detections.empty() ? 0 : result.points.size() / result.detections.size();
  std::size_t next = 0;
  auto list = Json::array();
  for (const Detection& found : result.detections) {
    list.push_back({{"label", label(found.label_index)},
                    {"label_index", found.label_index},
                    {"score", rounded(found.score, 1e4)},
                    {"box",
                     {rounded(found.left, 10), rounded(found.top, 10), rounded(found.right, 10),
                      rounded(found.bottom, 10)}}});
    if (each == 0) continue;
    auto points = Json::array();
    for (const Point& point : result.points.subspan(each * next++, each)) {
      points.push_back({rounded(point.x, 10), rounded(point.y, 10), rounded(point.score, 1e4)});
    }
    list.back()["points"] = std::move(points);
  }
  return list;
}

Json classes_json(std::span<const ClassScore> classes, const Label& label) {
  auto list = Json::array();
  for (const ClassScore& found : classes) {
    list.push_back({{"label", label(found.label_index)},
                    {"label_index", found.label_index},
                    {"score", rounded(found.score, 1e4)},
                    {"probability", rounded(found.probability, 1e4)}});
  }
  return list;
}

Json points_json(std::span<const Point> points, const Label& label) {
  auto list = Json::array();
  int index = 0;
  for (const Point& found : points) {
    list.push_back({{"label", label(index)},
                    {"label_index", index},
                    {"score", rounded(found.score, 1e4)},
                    {"point", {rounded(found.x, 10), rounded(found.y, 10)}}});
    ++index;
  }
  return list;
}

/// The share of the picture that each class covers, largest first.
Json areas_json(const ClassMap& map, const Label& label) {
  std::array<std::size_t, 256> cells{};
  for (int row = map.top; row < map.bottom; ++row) {
    const auto begin = static_cast<std::size_t>(row) * static_cast<std::size_t>(map.width);
    for (int column = map.left; column < map.right; ++column) {
      ++cells[map.classes[begin + static_cast<std::size_t>(column)]];
    }
  }
  std::array<int, 256> order{};
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int index) { return cells[static_cast<std::size_t>(index)]; };
  std::ranges::stable_sort(order, std::greater(), count);
  const auto total = static_cast<double>(map.right - map.left) * (map.bottom - map.top);
  auto list = Json::array();
  for (const int index : order) {
    if (count(index) == 0) break;
    list.push_back({{"label", label(index)},
                    {"label_index", index},
                    {"share", rounded(static_cast<double>(count(index)) / total, 1e4)}});
  }
  return list;
}

}  // namespace

std::string Postprocessor::json_line(const OutputFrame& frame, const FrameResult& result,
                                     const std::string& source) const {
  // Indexing a null value turns it into an object first, and if the memory for that is missing, its
  // destructor crashes. So objects and arrays are made as such.
  auto line = nlohmann::ordered_json::object();
  line["frame"] = frame.id();
  line["source"] = source;
  line["latency_ms"] =
      rounded(std::chrono::duration<double, std::milli>(frame.latency()).count(), 1e3);
  const auto named = [this](int index) { return label(index); };
  switch (result.kind) {
    case ResultKind::kNone:
      break;
    case ResultKind::kDetections:
      line["detections"] = detections_json(result, named);
      break;
    case ResultKind::kClasses:
      line["classes"] = classes_json(result.classes, named);
      break;
    case ResultKind::kPoints:
      line["points"] = points_json(result.points, named);
      break;
    case ResultKind::kClassMap:
      line["areas"] = areas_json(result.map, named);
      break;
    case ResultKind::kText:
      line["text"] = std::string(result.text);
      line["score"] = rounded(result.text_score, 1e4);
      break;
  }
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace edgepipe
