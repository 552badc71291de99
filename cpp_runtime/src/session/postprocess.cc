#include "edgepipe/postprocess.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "session/classify.h"
#include "session/detect.h"

namespace edgepipe {
namespace {

std::span<const float> floats(std::span<const std::byte> bytes) {
  // Slot buffers are aligned to at least 64 bytes and only ever contain this tensor.
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// `value` to as many decimals as `unit` has zeros, ties to even.
double rounded(double value, double unit) { return std::nearbyint(value * unit) / unit; }

Status disagrees(const std::string& text) {
  return Status(Code::kCorrupt, "manifest.json: postprocess: " + text,
                "correct the network's description and build the bundle again");
}

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
  Status status;
  if (manifest.postprocess.kind == "nanodet") status = made.set_up_nanodet(manifest);
  if (manifest.postprocess.kind == "classify") status = made.set_up_classify(manifest);
  if (!status.ok()) return status;
  return made;
}

Status Postprocessor::set_up_nanodet(const Manifest& manifest) {
  const Postprocess& wanted = manifest.postprocess;
  NanoDetDecoder::Options options;
  options.width = manifest.preprocess.width;
  options.height = manifest.preprocess.height;
  options.bins = wanted.bins;
  options.strides.assign(wanted.strides.begin(), wanted.strides.end());
  options.score_threshold = static_cast<float>(wanted.score_threshold);
  options.iou_threshold = static_cast<float>(wanted.iou_threshold);
  options.classes = static_cast<int>(manifest.tensors[wanted.scores[0]].shape[2]);
  Result<NanoDetDecoder> decoder = NanoDetDecoder::create(options);
  if (!decoder.ok()) return disagrees(decoder.status().message());
  for (std::size_t index = 0; index < wanted.strides.size(); ++index) {
    const auto check = [&](std::size_t tensor_index, std::int64_t values) {
      const TensorSpec& tensor = manifest.tensors[tensor_index];
      const auto cells = static_cast<std::int64_t>(decoder->cells(index));
      if (tensor.shape[1] == cells && tensor.shape[2] == values) return Status();
      return disagrees("tensor '" + tensor.name + "' is [1, " + std::to_string(tensor.shape[1]) +
                       ", " + std::to_string(tensor.shape[2]) + "], expected [1, " +
                       std::to_string(cells) + ", " + std::to_string(values) + "] for stride " +
                       std::to_string(options.strides[index]));
    };
    Status status = check(wanted.scores[index], options.classes);
    if (status.ok()) status = check(wanted.distances[index], std::int64_t{4} * options.bins);
    if (!status.ok()) return status;
  }
  in_picture_.reserve(options.most_detections);
  decoder_ = std::make_unique<NanoDetDecoder>(*std::move(decoder));
  score_tensors_ = wanted.scores;
  distance_tensors_ = wanted.distances;
  scores_.resize(score_tensors_.size());
  distances_.resize(distance_tensors_.size());
  return {};
}

Status Postprocessor::set_up_classify(const Manifest& manifest) {
  const TensorSpec& tensor = manifest.tensors[manifest.outputs[0]];
  const std::size_t classes = tensor.bytes / sizeof(float);
  score_tensors_ = manifest.outputs;
  classes_.resize(std::min(classes, static_cast<std::size_t>(manifest.postprocess.top)));
  return {};
}

FrameResult Postprocessor::run(const OutputFrame& frame) {
  FrameResult result;
  if (decoder_) {
    for (std::size_t index = 0; index < scores_.size(); ++index) {
      scores_[index] = floats(frame.tensor(score_tensors_[index]));
      distances_[index] = floats(frame.tensor(distance_tensors_[index]));
    }
    result.detections = decoder_->decode(scores_, distances_);
  } else if (!classes_.empty()) {
    top_classes(floats(frame.tensor(score_tensors_[0])), classes_);
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
  if (decoder_) {
    line["detections"] = nlohmann::ordered_json::array();
    for (const Detection& found : result.detections) {
      line["detections"].push_back({{"label", label(found.label_index)},
                                    {"label_index", found.label_index},
                                    {"score", rounded(found.score, 1e4)},
                                    {"box",
                                     {rounded(found.left, 10), rounded(found.top, 10),
                                      rounded(found.right, 10), rounded(found.bottom, 10)}}});
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
