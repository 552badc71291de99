#include "postprocess/own_decoder.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host_architecture.h"
#include "base/loaded_library.h"
#include "base/out_of_memory.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostErrorBytes = 512;
constexpr const char* kTooMany =
    "report only the best results, or raise `most` in the description and build the bundle again";
constexpr const char* kLinkAll =
    "build the decoder's library for this machine, with all that it needs linked into it, and "
    "build the bundle again";
constexpr const char* kWrongValues = "correct the bundle's own decoder and build the bundle again";

Status wrong_values(const std::string& text) {
  return {Code::kInternal, "own decoder: " + text, kWrongValues};
}

/// Whether a count is within its capacity. `what` is in the plural.
Status check_count(const char* what, std::uint32_t found, std::size_t most) {
  if (found <= most) return {};
  return {Code::kInternal,
          "own decoder: found " + std::to_string(found) + " " + what + ", expected at most " +
              std::to_string(most),
          kTooMany};
}

/// JSON has no other numbers.
template <std::size_t kCount>
bool finite(const std::array<float, kCount>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

class OwnDecoder final : public Decoder {
 public:
  OwnDecoder(const Manifest& manifest, std::size_t labels, EpDecoderFunction function,
             std::shared_ptr<const void> library)
      : Decoder(manifest.postprocess.outputs, room(manifest, ResultKind::kDetections),
                points_room(manifest)),
        kind_(kind_of(manifest)),
        library_(std::move(library)),
        function_(function) {
    const std::size_t count = tensors().size();
    names_.reserve(count);  // inputs_ points into both
    shapes_.reserve(count);
    for (const std::size_t index : tensors()) {
      const TensorSpec& tensor = manifest.tensors[index];
      const std::string& name = names_.emplace_back(tensor.name);
      const std::vector<std::int64_t>& shape = shapes_.emplace_back(tensor.shape);
      inputs_.push_back({.name = name.c_str(),
                         .values = nullptr,
                         .shape = shape.data(),
                         .rank = static_cast<std::uint32_t>(shape.size())});
    }
    input_ = {.version = EP_DECODER_VERSION,
              .tensor_count = static_cast<std::uint32_t>(count),
              .tensors = inputs_.data(),
              .width = manifest.preprocess.width,
              .height = manifest.preprocess.height,
              .label_count = static_cast<std::uint32_t>(labels)};
    own_boxes_.resize(most_detections());
    own_points_.resize(most_points());
    own_classes_.resize(room(manifest, ResultKind::kClasses));
    text_.resize(room(manifest, ResultKind::kText));
    boxes_.reserve(own_boxes_.size());
    points_.reserve(own_points_.size());
    classes_.reserve(own_classes_.size());
  }

  Result<FrameResult> decode(Tensors tensors) override {
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      inputs_[index].values = tensors[index].data();
    }
    EpDecoderOutput output = {
        .boxes = own_boxes_.data(),
        .most_boxes = static_cast<std::uint32_t>(own_boxes_.size()),
        .box_count = 0,
        .points = own_points_.data(),
        .most_points = static_cast<std::uint32_t>(own_points_.size()),
        .point_count = 0,
        .classes = own_classes_.data(),
        .most_classes = static_cast<std::uint32_t>(own_classes_.size()),
        .class_count = 0,
        .text = text_.data(),
        .most_text_bytes = static_cast<std::uint32_t>(text_.size()),
        .text_bytes = 0,
        .text_score = 0,
    };
    Status status = call(output);
    if (status.ok()) status = check_counts(output);
    if (status.ok()) status = take_values(output);
    if (!status.ok()) return status;
    return FrameResult{.kind = kind_,
                       .detections = boxes_,
                       .points = points_,
                       .classes = classes_,
                       .text = std::string_view(text_).substr(0, output.text_bytes),
                       .text_score = output.text_score};
  }

 private:
  static ResultKind kind_of(const Manifest& manifest) {
    const std::string& gives = manifest.postprocess.gives;
    if (gives == "boxes") return ResultKind::kDetections;
    if (gives == "classes") return ResultKind::kClasses;
    return gives == "points" ? ResultKind::kPoints : ResultKind::kText;
  }

  /// How many results of a kind, or bytes of text, a frame may have.
  static std::size_t room(const Manifest& manifest, ResultKind kind) {
    return kind_of(manifest) == kind ? static_cast<std::size_t>(manifest.postprocess.most) : 0;
  }

  static std::size_t points_room(const Manifest& manifest) {
    return room(manifest, ResultKind::kPoints) +
           room(manifest, ResultKind::kDetections) *
               static_cast<std::size_t>(manifest.postprocess.points);
  }

  Status call(EpDecoderOutput& output) {
    std::array<char, kMostErrorBytes> error{};
    int code = 0;
    // User code runs here; its exceptions must not end the program.
    try {
      code = function_(&input_, &output, error.data(), error.size());
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& thrown) {
      return {Code::kInternal, std::string("own decoder: exception: ") + thrown.what()};
    } catch (...) {
      return {Code::kInternal, "own decoder: exception that is not a std::exception"};
    }
    if (code == 0) return {};
    error.back() = '\0';
    return {Code::kInternal,
            "own decoder: " + (error.front() != '\0' ? std::string(error.data())
                                                     : "returned " + std::to_string(code))};
  }

  [[nodiscard]] Status check_counts(const EpDecoderOutput& output) const {
    Status status = check_count("boxes", output.box_count, own_boxes_.size());
    if (status.ok()) status = check_count("points", output.point_count, own_points_.size());
    if (status.ok()) status = check_count("classes", output.class_count, own_classes_.size());
    if (status.ok()) status = check_count("bytes of text", output.text_bytes, text_.size());
    if (!status.ok()) return status;
    if (kind_ != ResultKind::kDetections || output.point_count == 0) return {};
    if (output.box_count > 0 && output.point_count % output.box_count == 0) return {};
    return wrong_values("found " + std::to_string(output.point_count) + " points for " +
                        std::to_string(output.box_count) + " boxes, expected as many for each box");
  }

  Status take_values(const EpDecoderOutput& output) {
    boxes_.clear();
    for (const EpBox& box : std::span(own_boxes_).first(output.box_count)) {
      if (!finite(std::array{box.left, box.top, box.right, box.bottom, box.score})) {
        return not_finite("box", boxes_.size());
      }
      if (box.label_index < 0) return negative("box", boxes_.size(), box.label_index);
      boxes_.push_back({.left = box.left,
                        .top = box.top,
                        .right = box.right,
                        .bottom = box.bottom,
                        .score = box.score,
                        .label_index = box.label_index});
    }
    points_.clear();
    for (const EpPoint& point : std::span(own_points_).first(output.point_count)) {
      if (!finite(std::array{point.x, point.y, point.score})) {
        return not_finite("point", points_.size());
      }
      points_.push_back({.x = point.x, .y = point.y, .score = point.score});
    }
    classes_.clear();
    for (const EpClass& found : std::span(own_classes_).first(output.class_count)) {
      if (!finite(std::array{found.score, found.probability})) {
        return not_finite("class", classes_.size());
      }
      if (found.label_index < 0) return negative("class", classes_.size(), found.label_index);
      classes_.push_back({.label_index = found.label_index,
                          .score = found.score,
                          .probability = found.probability});
    }
    if (!std::isfinite(output.text_score)) {
      return wrong_values("the score of the text is not a finite number");
    }
    return {};
  }

  static Status not_finite(const char* what, std::size_t index) {
    return wrong_values(std::string(what) + " " + std::to_string(index) +
                        " has a value that is not a finite number");
  }

  static Status negative(const char* what, std::size_t index, std::int32_t label) {
    return wrong_values(std::string(what) + " " + std::to_string(index) + " has label_index " +
                        std::to_string(label) + ", expected 0 or more");
  }

  ResultKind kind_;
  std::shared_ptr<const void> library_;  // open as long as the function may be called
  EpDecoderFunction function_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<EpDecoderTensor> inputs_;
  EpDecoderInput input_{};
  std::vector<EpBox> own_boxes_;  // filled by the function, with the three below
  std::vector<EpPoint> own_points_;
  std::vector<EpClass> own_classes_;
  std::string text_;
  std::vector<Detection> boxes_;
  std::vector<Point> points_;
  std::vector<ClassScore> classes_;
};

/// The bundle's library for this machine; without one, an error that lists those it has.
Result<std::string> library_for_this_machine(const Postprocess& wanted) {
  const std::string fitting = "decoder/" + std::string(host_architecture()) + ".so";
  std::string others;
  for (const std::string& path : wanted.libraries) {
    if (path == fitting) return path;
    others += (others.empty() ? "" : ", ") + path;
  }
  return Status(Code::kUnsupported,
                "own decoder: the bundle has no library for " + std::string(host_architecture()) +
                    (others.empty() ? "" : ", only " + others),
                "build the decoder's library for this architecture, add it to `libraries` in the "
                "description and build the bundle again");
}

}  // namespace

std::unique_ptr<Decoder> make_own_decoder(const Manifest& manifest, std::size_t labels,
                                          EpDecoderFunction function,
                                          std::shared_ptr<const void> library) {
  return std::make_unique<OwnDecoder>(manifest, labels, function, std::move(library));
}

Result<std::unique_ptr<Decoder>> open_own_decoder(const Bundle& bundle) {
  const Manifest& manifest = bundle.manifest();
  Result<std::string> path = library_for_this_machine(manifest.postprocess);
  if (!path.ok()) return path.status();
  Result<std::vector<std::string>> labels = bundle.labels();
  if (!labels.ok()) return labels.status();
  Result<std::span<const std::byte>> content = bundle.content(*path);
  if (!content.ok()) return content.status();
  Result<MemoryLibrary> loaded = load_library(*content, *path).advised(kLinkAll);
  if (!loaded.ok()) return loaded.status();
  const auto library = std::make_shared<const MemoryLibrary>(*std::move(loaded));
  const std::string& symbol = manifest.postprocess.symbol;
  void* const function = ::dlsym(library->library.get(), symbol.c_str());
  if (function == nullptr) {
    return Status(
        Code::kNotFound, *path + ": no function '" + symbol + "'",
        "correct `symbol` in the description, or give the function C linkage, and build the "
        "bundle again");
  }
  return make_own_decoder(manifest, labels->size(), reinterpret_cast<EpDecoderFunction>(function),
                          library);
}

}  // namespace edgepipe
