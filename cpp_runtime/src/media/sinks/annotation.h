// annotate: draws a frame's results on a picture: boxes with names, dots, class maps, a caption.
//
//   HeldResult held;
//   held.hold(result);  // a copy that outlives the postprocessor's next run
//   annotate(canvas, held.view(), placement, names);
//
// Colours are those of `edgepipe run` and of the live page.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/postprocess.h"
#include "media/pictures/painter.h"

namespace edgepipe {

/// The name of a class.
using ClassNames = std::function<std::string(int label_index)>;

/// A copy of a frame's results. Its memory is used again, so that it allocates nothing once it has
/// held the largest ones.
class HeldResult {
 public:
  void hold(const FrameResult& result);

  /// Valid until the next hold().
  [[nodiscard]] FrameResult view() const;

 private:
  FrameResult scalars_;
  std::vector<Detection> detections_;
  std::vector<Point> points_;
  std::vector<ClassScore> classes_;
  std::vector<std::uint8_t> cells_;
  std::string text_;
};

/// Draws results whose boxes and points are in pixels of the picture that `placement` describes,
/// where that picture lies in the canvas. Names of boxes do not overlap: of two that would, the
/// less certain one is left out.
void annotate(const Canvas& canvas, const FrameResult& result, const Placement& placement,
              const ClassNames& names);

}  // namespace edgepipe
