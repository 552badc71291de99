#include <algorithm>
#include <cmath>

#include "edgepipe/manifest.h"

namespace edgepipe {

Placement Preprocess::place(int picture_width, int picture_height) const {
  Placement placed{.width = picture_width,
                   .height = picture_height,
                   .fitted_width = width,
                   .fitted_height = height};
  if (fit == "stretch") return placed;
  // Rounds half to even, like the Python side.
  const auto fitted = [](int side, double ratio) {
    return static_cast<int>(std::nearbyint(side * ratio));
  };
  if (fit == "center_crop") {
    const double ratio =
        static_cast<double>(resize_short_side) / std::min(picture_width, picture_height);
    placed.fitted_width = std::max(fitted(picture_width, ratio), width);
    placed.fitted_height = std::max(fitted(picture_height, ratio), height);
    placed.left = (placed.fitted_width - width) / 2;
    placed.top = (placed.fitted_height - height) / 2;
    return placed;
  }
  const double ratio = std::min(static_cast<double>(width) / picture_width,
                                static_cast<double>(height) / picture_height);
  placed.fitted_width = std::clamp(fitted(picture_width, ratio), 1, width);
  placed.fitted_height = std::clamp(fitted(picture_height, ratio), 1, height);
  if (align == "center") {
    placed.left = -((width - placed.fitted_width) / 2);
    placed.top = -((height - placed.fitted_height) / 2);
  }
  return placed;
}

float Placement::picture_x(float x) const {
  return static_cast<float>((static_cast<double>(x) + left) / scale_x());
}

float Placement::picture_y(float y) const {
  return static_cast<float>((static_cast<double>(y) + top) / scale_y());
}

}  // namespace edgepipe
