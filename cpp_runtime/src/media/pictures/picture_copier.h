// PictureCopier: copies pictures for people to look at, reduced by whole numbers.
//
//   PictureCopier copier;
//   const int reduction = PictureCopier::reduction(picture.width, picture.height, 1 << 20);
//   Picture copy = copier.copy(picture, reduction, pixels);
//
// A pixel of the copy is the mean of reduction x reduction pixels, or of fewer at the right and the
// lower edge, so that the copy covers the whole picture. Its rows are divided among the cores of
// the stage whose thread calls copy (core_team.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "edgepipe/picture.h"

namespace edgepipe {

class PictureCopier {
 public:
  /// Fewer pixels than these are not asked of a copy.
  static constexpr std::uint64_t kLeastPixels = 1024;

  /// The least whole number by which both sides of a picture are to be divided, each rounded up,
  /// for at most `most_pixels`, or kLeastPixels if that is more.
  static int reduction(int width, int height, std::uint64_t most_pixels);

  /// Copies a checked picture with pixels (not a JPEG, PNG or BMP) to `pixels`, as kRgb without
  /// padding. `reduction` is one of the function above. Allocates only when the sizes grow. One
  /// thread at a time.
  Picture copy(const Picture& picture, int reduction, std::vector<std::byte>& pixels);

 private:
  struct Sharing;

  static constexpr std::size_t kBands = 8;  // of rows, which cores divide

  /// What a band of rows needs for itself if it is reduced.
  struct Band {
    std::vector<std::uint8_t> unpacked;  // a row of the picture
    std::vector<std::uint32_t> sums;     // of the pixels of a row of the copy
  };

  std::array<Band, kBands> bands_;
};

}  // namespace edgepipe
