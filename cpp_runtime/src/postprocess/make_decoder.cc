#include <algorithm>
#include <array>
#include <string_view>

#include "postprocess/box_heads.h"
#include "postprocess/class_map.h"
#include "postprocess/classify.h"
#include "postprocess/decoder.h"
#include "postprocess/head_layout.h"
#include "postprocess/heat_maps.h"
#include "postprocess/text_finder.h"
#include "postprocess/text_reader.h"

namespace edgepipe {
namespace {

struct Task {
  std::string_view name;
  Result<std::unique_ptr<Decoder>> (*make)(const Manifest&, const Labels&);
};

// By the kind in the manifest. Kinds of boxes have a table of their own, in box_heads.cc.
constexpr std::array kTasks{
    Task{"classify", make_classifier},
    Task{"segmentation", make_class_mapper},
    Task{"keypoints", make_heat_map_reader},
    Task{"ctc", make_text_reader},
    Task{"db", make_text_finder},
};

}  // namespace

Result<std::unique_ptr<Decoder>> make_decoder(const Manifest& manifest, const Labels& labels) {
  if (gives_boxes(manifest.postprocess)) return make_box_decoder(manifest);
  const auto kind =
      std::ranges::find(kTasks, std::string_view(manifest.postprocess.kind), &Task::name);
  if (kind == kTasks.end()) return std::unique_ptr<Decoder>();
  return kind->make(manifest, labels);
}

Status refused_postprocess(const std::string& text) {
  return {Code::kCorrupt, "manifest.json: postprocess: " + text,
          "correct the network's description and build the bundle again"};
}

Status refused_tensor(const TensorSpec& tensor, const std::string& expected) {
  return refused_postprocess("tensor '" + tensor.name + "' is " + shape_text(tensor.shape) +
                             ", expected " + expected);
}

}  // namespace edgepipe
