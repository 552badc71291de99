// A bundle with the kernels of box_kernels.cc, and pictures for it.
#pragma once

#include <gst/gst.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/host_architecture.h"
#include "support/bundle_test_files.h"

namespace edgepipe::testing {

inline constexpr int kBoxPictureSize = 8;  // pixels of a side

/// A picture with a bright box, and what the network is to do with it.
struct BoxPicture {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
  std::uint8_t label = 0;
  std::uint8_t stage_ms = 0;
  bool fails = false;
};

inline GstBuffer* buffer_of(const BoxPicture& picture, guint64 number) {
  std::array<std::uint8_t, kBoxPictureSize * kBoxPictureSize * 3> pixels{};
  for (int row = picture.top; row < picture.bottom; ++row) {
    for (int column = picture.left; column < picture.right; ++column) {
      for (int channel = 0; channel < 3; ++channel) {
        pixels[static_cast<std::size_t>((row * kBoxPictureSize + column) * 3 + channel)] = 200;
      }
    }
  }
  pixels[pixels.size() - 3] = picture.label;
  pixels[pixels.size() - 2] = picture.stage_ms;
  pixels[pixels.size() - 1] = picture.fails ? 255 : 0;
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, pixels.size(), nullptr);
  gst_buffer_fill(buffer, 0, pixels.data(), pixels.size());
  GST_BUFFER_PTS(buffer) = number * 100 * GST_MSECOND;
  GST_BUFFER_DURATION(buffer) = 100 * GST_MSECOND;
  return buffer;
}

inline std::string plan(const nlohmann::json& input, const nlohmann::json& output,
                        const char* kernel) {
  const auto view = [](nlohmann::json tensor, const char* storage) {
    tensor.erase("name");
    tensor["storage"] = storage;
    tensor["index"] = tensor["offset"] = 0;
    return tensor;
  };
  nlohmann::json file = {{"format", 2},
                         {"inputs", {input}},
                         {"outputs", {output}},
                         {"weights_bytes", 0},
                         {"workspace_bytes", 0},
                         {"scratch_bytes", 0},
                         {"calls", {{{"operator", kernel}, {"kernel", kernel}, {"args", {0, 1}}}}}};
  file["tensors"] = {view(input, "input"), view(output, "output")};
  file["architectures"][std::string(host_architecture())] = {
      {{"kernels", "kernels.so"}, {"cpu_features", nlohmann::json::array()}}};
  return file.dump();
}

/// The files of the bundle.
inline Files box_files() {
  std::ifstream library(EDGEPIPE_TEST_BOX_KERNELS, std::ios::binary);
  const std::string kernels{std::istreambuf_iterator<char>(library), {}};
  const nlohmann::json frame = {
      {"name", "frame"}, {"dtype", "uint8"}, {"shape", {1, kBoxPictureSize, kBoxPictureSize, 3}}};
  const nlohmann::json found = {{"name", "found"}, {"dtype", "uint8"}, {"shape", {6}}};
  const nlohmann::json boxes = {{"name", "boxes"}, {"dtype", "float32"}, {"shape", {1, 12, 6}}};
  return {{"golden/frame.bin", std::string(192, '\0')},
          {"golden/boxes.bin", std::string(288, '\0')},
          {"labels.txt", "cat\ndog\n"},
          {"stages/0_arm/plan.json", plan(frame, found, "look")},
          {"stages/0_arm/weights.bin", ""},
          {"stages/0_arm/kernels.so", kernels},
          {"stages/1_arm/plan.json", plan(found, boxes, "box")},
          {"stages/1_arm/weights.bin", ""},
          {"stages/1_arm/kernels.so", kernels}};
}

inline Files box_bundle() {
  const nlohmann::json none = nlohmann::json::array();
  nlohmann::json manifest = manifest_of(box_files());
  manifest["name"] = "box";
  manifest["inputs"] = {"frame"};
  manifest["outputs"] = {"boxes"};
  manifest["tensors"] = none;
  const auto tensor = [&](const char* name, const char* dtype, std::vector<int> shape,
                          const char* layout, int bytes) {
    manifest["tensors"].push_back(
        {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"layout", layout}, {"bytes", bytes}});
  };
  tensor("frame", "uint8", {1, kBoxPictureSize, kBoxPictureSize, 3}, "nhwc", 192);
  tensor("found", "uint8", {6}, "nchw", 6);
  tensor("boxes", "float32", {1, 12, 6}, "nchw", 288);
  manifest["stages"] = none;
  const auto stage = [&](const char* name, const char* folder, const char* in, const char* out) {
    manifest["stages"].push_back({{"name", name},
                                  {"kind", "arm"},
                                  {"folder", folder},
                                  {"inputs", {in}},
                                  {"outputs", {out}}});
  };
  stage("look", "stages/0_arm", "frame", "found");
  stage("box", "stages/1_arm", "found", "boxes");
  manifest["golden"] = {{"inputs", {{{"tensor", "frame"}, {"file", "golden/frame.bin"}}}},
                        {"outputs", {{{"tensor", "boxes"}, {"file", "golden/boxes.bin"}}}}};
  manifest["preprocess"] = {{"width", kBoxPictureSize},
                            {"height", kBoxPictureSize},
                            {"order", "BGR"},
                            {"fit", "stretch"}};
  manifest["postprocess"] = {{"kind", "boxes"},
                             {"labels", "labels.txt"},
                             {"score_threshold", 0.4},
                             {"iou_threshold", 0.5},
                             {"strides", none},
                             {"grids", none},
                             {"bins", 0},
                             {"activation", "none"},
                             {"formula", "corners"},
                             {"per_cell", 1},
                             {"cell_offset", 0.5},
                             {"background", false},
                             {"objectness", false},
                             {"normalized", false},
                             {"points", 0},
                             {"point_values", 2},
                             {"variances", {1, 1}},
                             {"anchors", none},
                             {"outputs", {"boxes"}},
                             {"scores", none},
                             {"distances", none},
                             {"centers", none},
                             {"landmarks", none}};
  return with_manifest(box_files(), manifest);
}

}  // namespace edgepipe::testing
