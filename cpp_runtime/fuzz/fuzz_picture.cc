// A file of arbitrary bytes, PPM, PGM, BMP, PNG or JPEG with Exif, is either refused or fits a
// frame. The sanitizer finds reads outside the file and writes outside the frame.
//
// The input is a byte that chooses the fitting, then the file.
#include <array>
#include <cstdlib>
#include <utility>

#include "media/pictures/orientation.h"
#include "media/pictures/picture_fitter.h"
#include "media/pictures/pnm_header.h"

namespace edgepipe {
namespace {

constexpr int kSide = 24;                                     // pixels
constexpr std::uint64_t kFewPixels = std::uint64_t{1} << 18;  // so that an input takes milliseconds

/// One fitting of each kind, also into frames that are wider or higher than they are long.
std::array<PictureFitter, 5> make_fitters() {
  const auto make = [](const Preprocess& preprocess) {
    Result<PictureFitter> fitter = PictureFitter::create(preprocess, kFewPixels);
    if (!fitter.ok()) std::abort();
    return *std::move(fitter);
  };
  return {make({.width = kSide,
                .height = kSide,
                .order = "RGB",
                .fit = "stretch",
                .resize_short_side = 0}),
          make({.width = kSide,
                .height = kSide,
                .order = "GRAY",
                .fit = "center_crop",
                .resize_short_side = 2 * kSide}),
          make({.width = 2 * kSide,
                .height = kSide,
                .order = "BGR",
                .fit = "letterbox",
                .resize_short_side = 0,
                .padding = 114,
                .align = "center"}),
          make({.width = kSide,
                .height = 2 * kSide,
                .order = "RGB",
                .fit = "letterbox",
                .resize_short_side = 0,
                .padding = 114,
                .align = "top_left"}),
          make({.width = kSide,
                .height = kSide,
                .order = "GRAY",
                .fit = "letterbox",
                .resize_short_side = 0,
                .padding = 255,
                .align = "center"})};
}

constexpr std::array<std::size_t, 5> kFrameBytes{
    std::size_t{3} * kSide * kSide, std::size_t{kSide} * kSide, std::size_t{6} * kSide* kSide,
    std::size_t{6} * kSide* kSide, std::size_t{kSide} * kSide};

/// The picture that a file of a folder would give.
Result<Picture> parse(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.front() != std::byte{'P'}) {
    const auto first = bytes.empty() ? 0 : std::to_integer<unsigned>(bytes.front());
    return Picture{.format = first == 0x89  ? PixelFormat::kPng
                             : first == 'B' ? PixelFormat::kBmp
                                            : PixelFormat::kJpeg,
                   .bytes = bytes};
  }
  const Result<PnmHeader> header = take_pnm_header(bytes);
  if (!header.ok()) return header.status();
  if (Status status = check_size(header->width, header->height, kFewPixels); !status.ok()) {
    return status;
  }
  Picture picture{.format = header->gray ? PixelFormat::kGray : PixelFormat::kRgb,
                  .width = header->width,
                  .height = header->height};
  picture.row_bytes = packed_row_bytes(picture.format, picture.width);
  picture.bytes = bytes;
  return picture;
}

}  // namespace
}  // namespace edgepipe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace edgepipe;
  static std::array<PictureFitter, 5> fitters = make_fitters();
  if (bytes == 0) return 0;
  const std::size_t chosen = data[0] % fitters.size();
  const std::span<const std::byte> file = std::as_bytes(std::span(data + 1, bytes - 1));
  // Also of a file that the JPEG decoder refuses: the segments in front of its data are ours.
  const int orientation = exif_orientation(file);
  if (orientation < 1 || orientation > 8) std::abort();
  const int of_png = png_orientation(file);
  if (of_png < 1 || of_png > 8) std::abort();
  const Result<Picture> picture = parse(file);
  if (!picture.ok()) return 0;
  std::vector<std::byte> frame(kFrameBytes[chosen]);
  if (!fitters[chosen].fit(*picture, frame).ok()) return 0;
  const Placement& placed = fitters[chosen].placement();
  if (placed.width < 1 || placed.height < 1 || placed.fitted_width < 1 ||
      placed.fitted_height < 1) {
    std::abort();
  }
  return 0;
}
