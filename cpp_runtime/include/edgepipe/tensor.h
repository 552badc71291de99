// TensorSpec: one tensor in a bundle's manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace edgepipe {

struct TensorSpec {
  std::string name;
  std::string dtype;                // "uint8", "int8", "int32" or "float32"
  std::vector<std::int64_t> shape;  // logical, e.g. [1, C, H, W], in every layout
  std::string layout;               // "nchw", "nhwc" or "vta" ([C/block][H][W][batch][block])
  std::size_t bytes = 0;            // of one frame in that layout
};

}  // namespace edgepipe
