// PictureFitter: converts and scales a camera's picture to the network's input frame.
//
//   Result<PictureFitter> fitter = PictureFitter::create(bundle.manifest().preprocess);
//   Status status = fitter->fit(picture, frame.input(0));
//
// Reads the picture in place, converts one row at a time and writes the frame once. All arithmetic
// is in integers: with v and h the weights of axis_taps.h (each adds up to 2048), a frame's byte is
// (sum of v h pixel + 2**21) >> 22, on every machine. Sizes are those of `edgepipe run`: "stretch"
// scales both sides to the frame's; "center_crop" scales the short side to resize_short_side and
// crops the centre; "letterbox" scales the picture to fit inside and fills the rest with one value.
// The rows are divided among the cores of the stage whose thread calls fit (core_team.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/picture.h"
#include "edgepipe/status.h"
#include "media/pictures/jpeg_codec.h"
#include "media/pictures/png_decoder.h"

namespace edgepipe {

class PictureFitter {
 public:
  /// kInvalidArgument if the crop is larger than the scaled picture. JPEGs, PNGs and BMPs may have
  /// `most_pixels`.
  static Result<PictureFitter> create(const Preprocess& preprocess,
                                      std::uint64_t most_pixels = kMostPixels);
  PictureFitter(PictureFitter&&) noexcept;
  PictureFitter& operator=(PictureFitter&&) noexcept;
  ~PictureFitter();

  /// Writes `frame`: uint8[height, width, channels] in the network's order. kCorrupt for a damaged
  /// or too large JPEG, PNG or BMP, kUnsupported for one without its library and for kinds of BMP
  /// that are not read, kInvalidArgument for an inconsistent picture. Allocates only when the
  /// pictures' size or format changes. One thread at a time.
  Status fit(const Picture& picture, std::span<std::byte> frame);

  /// The last picture that was fitted, decoded and upright; valid until its lease ends or the next
  /// picture is fitted.
  [[nodiscard]] const Picture& pixels() const { return pixels_; }

  /// Where the last picture lies in its frame.
  [[nodiscard]] const Placement& placement() const;

 private:
  struct Plan;
  struct Sharing;
  PictureFitter(const Preprocess& preprocess, std::uint64_t most_pixels,
                std::unique_ptr<Plan> plan);

  Result<Picture> decoded(const Picture& picture);
  Status fit_pixels(const Picture& picture, std::span<std::byte> frame);
  void plan_for(const Picture& picture);
  void fit_rows(const Picture& picture, std::span<std::byte> frame, std::size_t band,
                std::size_t first, std::size_t end) const;

  Preprocess preprocess_;
  std::uint64_t most_pixels_;
  std::unique_ptr<Plan> plan_;
  std::optional<JpegCodec> jpeg_;  // opened with the first JPEG
  std::optional<PngDecoder> png_;  // opened with the first PNG
  Picture pixels_;
  std::vector<std::byte> upright_;  // pixels of a JPEG or PNG, turned, or of a BMP
};

}  // namespace edgepipe
