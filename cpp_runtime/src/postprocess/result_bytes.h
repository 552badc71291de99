// append_result: what postprocessing found in a frame, as bytes.
//
//   std::string bytes;
//   append_result(bytes, *decoder->decode(tensors));
//
// First the kind (ResultKind), the numbers of boxes, points and classes, the map's rows and columns
// and the text's bytes (uint32 each), and the text's score (float32). Then the boxes (left, top,
// right, bottom, score as float32, class as int32), the points (x, y, score as float32; as many for
// each box), the classes (class as int32, score, probability as float32), the map (a byte for each
// cell) and the text (UTF-8), all little-endian. edgepipe/runtime/frames.py reads them.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>

#include "edgepipe/postprocess.h"

namespace edgepipe {

// These objects are returned unchanged.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Detection) == 24 && sizeof(ClassScore) == 12 && sizeof(Point) == 12);

template <typename T>
void append(std::string& bytes, std::span<const T> objects) {
  bytes.append(reinterpret_cast<const char*>(objects.data()), objects.size_bytes());
}

template <typename T>
void append(std::string& bytes, T object) {
  append(bytes, std::span<const T>(&object, 1));
}

inline void append_result(std::string& bytes, const FrameResult& result) {
  append(bytes, static_cast<std::uint32_t>(result.kind));
  append(bytes, static_cast<std::uint32_t>(result.detections.size()));
  append(bytes, static_cast<std::uint32_t>(result.points.size()));
  append(bytes, static_cast<std::uint32_t>(result.classes.size()));
  append(bytes, static_cast<std::uint32_t>(result.map.height));
  append(bytes, static_cast<std::uint32_t>(result.map.width));
  append(bytes, static_cast<std::uint32_t>(result.text.size()));
  append(bytes, result.text_score);
  append(bytes, result.detections);
  append(bytes, result.points);
  append(bytes, result.classes);
  append(bytes, result.map.classes);
  bytes.append(result.text);
}

}  // namespace edgepipe
