// make_heat_map_reader: keypoints from heat maps, one map for each point.
//
//   Result<std::unique_ptr<Decoder>> reader = make_heat_map_reader(manifest, labels);
//   std::span<const Point> points = (*reader)->decode(tensors)->points;
//
// A point is where its map is highest, moved by a quarter of a cell towards the higher neighbour on
// either axis (Xiao et al. 2018, "Simple Baselines for Human Pose Estimation"). A map's cell c is
// at the input's pixel c * step, as such networks are trained.
#pragma once

#include <memory>

#include "postprocess/decoder.h"

namespace edgepipe {

/// kCorrupt for a tensor that is not a map, or of more than 4096 points.
Result<std::unique_ptr<Decoder>> make_heat_map_reader(const Manifest& manifest,
                                                      const Labels& labels);

}  // namespace edgepipe
