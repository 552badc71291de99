#include "bundle/postprocess_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/checked_values.h"

namespace edgepipe {
namespace {

constexpr std::array<std::string_view, 14> kKinds{
    "none", "classify",  "nanodet",      "distances", "anchors", "yolox", "boxes",
    "ssd",  "centernet", "segmentation", "keypoints", "ctc",     "db",    "own"};
constexpr std::array<std::string_view, 4> kActivations{"default", "none", "sigmoid", "softmax"};
constexpr int kMostPerCell = 64;  // boxes
constexpr int kMostUnclip = 10;
constexpr int kMostPoints = 512;      // of a box
constexpr int kMostResults = 10'000;  // of an own decoder in a frame

/// The activation at `key`; "default" is what exporters usually leave to the decoder.
std::string activation(JsonReader& item, const std::string& kind) {
  std::string found = one_of(item, "activation", kActivations);
  if (found != "default") return found;
  if (kind == "classify" || kind == "ssd" || kind == "ctc") return "softmax";
  return kind == "anchors" || kind == "distances" ? "sigmoid" : "none";
}

bool flag(JsonReader& item, const char* key) {
  const nlohmann::json& value = item.value(key);
  if (!value.is_boolean()) item.fail(key, "expected true or false");
  return value.is_boolean() && value.get<bool>();
}

/// A list of finite numbers.
std::vector<double> numbers(JsonReader& item, const char* key, const nlohmann::json& list) {
  std::vector<double> found;
  if (!list.is_array()) item.fail(key, "expected a list of numbers");
  for (const nlohmann::json& value : list) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      item.fail(key, "expected a list of numbers");
      return {};
    }
    found.push_back(value.get<double>());
  }
  return found;
}

/// Whole numbers from 1 up, such as strides.
std::vector<std::int64_t> positive(JsonReader& item, const char* key) {
  std::vector<std::int64_t> found = item.integers(key);
  for (const std::int64_t value : found) {
    if (value < 1 || value > kMostSmall) {
      item.fail(key,
                "found " + std::to_string(value) + ", expected 1 to " + std::to_string(kMostSmall));
    }
  }
  return found;
}

int at_most(JsonReader& item, const char* key, int least, int most) {
  const int found = small_whole(item, key, least);
  if (found > most) {
    item.fail(key,
              "found " + std::to_string(found) + ", expected " + std::to_string(most) + " at most");
    return least;
  }
  return found;
}

/// The float32 tensors named at `key`: one for each of `levels` or, if that is allowed, one for
/// all.
std::vector<std::size_t> float_tensors(JsonReader& item, const char* key, const Manifest& manifest,
                                       std::size_t levels) {
  std::vector<std::size_t> found = tensors_of(item, key, manifest);
  if (!item.status().ok()) return {};
  for (const std::size_t index : found) {
    const TensorSpec& tensor = manifest.tensors[index];
    if (tensor.dtype != "float32" || tensor.shape.size() < 2) {
      item.fail(key, "'" + tensor.name + "' is not a float32 tensor of two or more dimensions");
    }
  }
  if (!found.empty() && found.size() != 1 && found.size() != levels) {
    item.fail(key, "found " + std::to_string(found.size()) + " tensors, expected 1 or " +
                       std::to_string(levels));
  }
  return found;
}

void read_thresholds(JsonReader& item, Postprocess& wanted) {
  wanted.score_threshold = item.number("score_threshold");
  wanted.iou_threshold = item.number("iou_threshold");
}

/// The only kind of detection head that bundles of edgepipe 1.0 have, and its few keys.
void read_nanodet(JsonReader& item, const Manifest& manifest, Postprocess& wanted) {
  wanted.strides = positive(item, "strides");
  wanted.bins = small_whole(item, "bins", 2);
  read_thresholds(item, wanted);
  const std::size_t count = wanted.strides.size();
  wanted.scores = float_tensors(item, "scores", manifest, count);
  wanted.distances = float_tensors(item, "distances", manifest, count);
  if (!item.status().ok()) return;
  if (count == 0 || wanted.scores.size() != count || wanted.distances.size() != count) {
    item.fail("strides", "expected as many strides, scores and distances, and at least one");
  }
}

void read_anchors(JsonReader& item, Postprocess& wanted) {
  const nlohmann::json& levels = item.value("anchors");
  if (!levels.is_array()) item.fail("anchors", "expected a list of lists");
  for (const nlohmann::json& level : levels) {
    std::vector<double> sizes = numbers(item, "anchors", level);
    const bool positive_sizes = std::ranges::all_of(sizes, [](double size) { return size > 0; });
    if (sizes.empty() || sizes.size() % 2 != 0 || std::ssize(sizes) / 2 > kMostPerCell ||
        !positive_sizes) {
      item.fail("anchors", "expected a width and a height, in pixels, of 1 to " +
                               std::to_string(kMostPerCell) + " boxes");
    }
    wanted.anchors.push_back(std::move(sizes));
  }
}

void read_head(JsonReader& item, const Manifest& manifest, Postprocess& wanted) {
  read_thresholds(item, wanted);
  wanted.strides = positive(item, "strides");
  wanted.grids = positive(item, "grids");
  wanted.bins = small_whole(item, "bins", 0);
  wanted.activation = activation(item, wanted.kind);
  wanted.formula = item.text("formula");
  wanted.per_cell = at_most(item, "per_cell", 1, kMostPerCell);
  wanted.cell_offset = item.number("cell_offset");
  wanted.background = flag(item, "background");
  wanted.objectness = flag(item, "objectness");
  wanted.normalized = flag(item, "normalized");
  wanted.points = at_most(item, "points", 0, kMostPoints);
  wanted.point_values = at_most(item, "point_values", 2, 3);
  wanted.variances = numbers(item, "variances", item.value("variances"));
  read_anchors(item, wanted);
  const std::size_t levels = std::max(wanted.strides.size(), wanted.grids.size());
  wanted.outputs = float_tensors(item, "outputs", manifest, levels);
  wanted.scores = float_tensors(item, "scores", manifest, levels);
  wanted.distances = float_tensors(item, "distances", manifest, levels);
  wanted.centers = float_tensors(item, "centers", manifest, levels);
  wanted.landmarks = float_tensors(item, "landmarks", manifest, levels);
  if (!item.status().ok()) return;
  const auto refuse = [&](const char* key, const std::string& text) { item.fail(key, text); };
  const bool anchored = wanted.kind == "anchors" || wanted.kind == "ssd";
  if (wanted.variances.size() != 2) refuse("variances", "expected two numbers");
  if (wanted.kind == "anchors" && wanted.formula != "v3" && wanted.formula != "v5") {
    refuse("formula", "found \"" + wanted.formula + "\", expected v3 or v5");
  }
  if (wanted.kind == "boxes" && !wanted.formula.empty() && wanted.formula != "corners") {
    refuse("formula", "found \"" + wanted.formula + "\", expected \"corners\" or nothing");
  }
  const bool objectness = wanted.objectness || wanted.kind == "anchors" || wanted.kind == "yolox";
  if (objectness && wanted.activation == "softmax") {
    refuse("activation", "found \"softmax\", expected none or sigmoid beside an objectness");
  }
  if (wanted.kind == "boxes") {
    if (wanted.outputs.size() != 1) refuse("outputs", "expected one tensor");
    return;
  }
  if (levels == 0) refuse("strides", "expected at least one");
  if (wanted.outputs.empty() && (wanted.scores.empty() || wanted.distances.empty())) {
    refuse("outputs", "expected tensors here, or in scores and distances");
  }
  if (anchored ? wanted.anchors.size() != levels : !wanted.anchors.empty()) {
    refuse("anchors", "found " + std::to_string(wanted.anchors.size()) + " lists, expected " +
                          std::to_string(anchored ? levels : 0));
  }
  if (wanted.kind == "distances" && wanted.bins < 1) refuse("bins", "expected 1 or more");
  if (wanted.kind == "centernet" && (levels != 1 || wanted.per_cell != 1)) {
    refuse("strides", "expected one, with one box per cell");
  }
  if (wanted.landmarks.empty() != (wanted.points == 0)) {
    refuse("landmarks", "expected tensors if there are points, and none otherwise");
  }
  if (!wanted.landmarks.empty() && wanted.kind != "distances" && wanted.kind != "ssd") {
    refuse("landmarks", "expected none for kind \"" + wanted.kind + "\"");
  }
}

/// Kinds with one tensor, of which every value belongs to a cell of a map or a step of a text.
void read_map(JsonReader& item, const Manifest& manifest, Postprocess& wanted) {
  wanted.activation = activation(item, wanted.kind);
  wanted.score_threshold = item.number("score_threshold");
  if (wanted.kind == "ctc") {
    wanted.blank = one_of(item, "blank", std::array<std::string_view, 2>{"first", "last"});
  }
  if (wanted.kind == "db") {
    wanted.map_threshold = item.number("map_threshold");
    wanted.unclip = item.number("unclip");
    if (!(wanted.unclip >= 0 && wanted.unclip <= kMostUnclip)) {
      item.fail("unclip", "expected 0 to " + std::to_string(kMostUnclip));
    }
  }
  wanted.outputs = float_tensors(item, "outputs", manifest, 1);
  if (item.status().ok() && wanted.outputs.size() != 1) item.fail("outputs", "expected one tensor");
}

/// A user's own decoder: the tensors that it gets, and what it gives.
void read_own(JsonReader& item, const Manifest& manifest, Postprocess& wanted) {
  wanted.gives =
      one_of(item, "gives", std::array<std::string_view, 4>{"boxes", "classes", "points", "text"});
  wanted.most = at_most(item, "most", 1, kMostResults);
  wanted.points = at_most(item, "points", 0, kMostPoints);
  wanted.libraries = item.texts("libraries");
  wanted.symbol = item.text("symbol");
  wanted.function = item.text("function");
  wanted.outputs = tensors_of(item, "outputs", manifest);
  if (!item.status().ok()) return;
  if (wanted.outputs.empty()) item.fail("outputs", "expected at least one tensor");
  for (const std::size_t index : wanted.outputs) {
    const TensorSpec& tensor = manifest.tensors[index];
    if (tensor.dtype != "float32") {
      item.fail("outputs", "'" + tensor.name + "' is " + tensor.dtype + ", expected float32");
    }
  }
  if (!wanted.function.empty() && wanted.function.find(':') == std::string::npos) {
    item.fail("function", "found \"" + wanted.function + "\", expected FILE:NAME");
  }
}

}  // namespace

std::size_t tensor_of(JsonReader& reader, const char* key, const std::string& name,
                      const Manifest& manifest) {
  const std::optional<std::size_t> index = manifest.tensor_index(name);
  if (!index) reader.fail(key, "'" + name + "' is not in tensors");
  return index.value_or(0);
}

std::vector<std::size_t> tensors_of(JsonReader& reader, const char* key, const Manifest& manifest) {
  std::vector<std::size_t> indices;
  for (const std::string& name : reader.texts(key)) {
    indices.push_back(tensor_of(reader, key, name, manifest));
  }
  return indices;
}

void read_postprocess(JsonReader& item, Manifest& manifest) {
  Postprocess& wanted = manifest.postprocess;
  wanted.kind = one_of(item, "kind", kKinds);
  wanted.labels = item.text("labels");
  if (!item.status().ok() || wanted.kind == "none") return;
  if (wanted.kind == "classify") {
    wanted.top = small_whole(item, "top", 1);
    // Bundles of edgepipe 1.0 do not say it.
    wanted.activation = item.has("activation") ? activation(item, wanted.kind) : "softmax";
    if (manifest.outputs.size() != 1 || manifest.tensors[manifest.outputs[0]].dtype != "float32") {
      item.fail("kind", "\"classify\" needs exactly one output, of float32");
    }
  } else if (wanted.kind == "nanodet") {
    read_nanodet(item, manifest, wanted);
  } else if (wanted.kind == "segmentation" || wanted.kind == "keypoints" || wanted.kind == "ctc" ||
             wanted.kind == "db") {
    read_map(item, manifest, wanted);
  } else if (wanted.kind == "own") {
    read_own(item, manifest, wanted);
  } else {
    read_head(item, manifest, wanted);
  }
}

}  // namespace edgepipe
