// A file of arbitrary bytes, PPM, PGM or JPEG, is either refused or fits a frame. The sanitizer
// finds reads outside the file and writes outside the frame.
#include <cstdlib>

#include "media/pictures/picture_fitter.h"
#include "media/pictures/pnm_header.h"

namespace edgepipe {
namespace {

constexpr int kSide = 24;  // pixels

/// The picture that a file of a folder would give.
Result<Picture> parse(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.front() != std::byte{'P'}) {
    return Picture{.format = PixelFormat::kJpeg, .bytes = bytes};
  }
  const Result<PnmHeader> header = take_pnm_header(bytes);
  if (!header.ok()) return header.status();
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
  static Result<PictureFitter> stretch = PictureFitter::create(
      {.width = kSide, .height = kSide, .order = "RGB", .fit = "stretch", .resize_short_side = 0});
  static Result<PictureFitter> crop = PictureFitter::create({.width = kSide,
                                                             .height = kSide,
                                                             .order = "GRAY",
                                                             .fit = "center_crop",
                                                             .resize_short_side = 2 * kSide});
  if (!stretch.ok() || !crop.ok()) std::abort();
  const Result<Picture> picture = parse(std::as_bytes(std::span(data, bytes)));
  if (!picture.ok()) return 0;
  std::vector<std::byte> frame(std::size_t{3} * kSide * kSide);
  const Status status = stretch->fit(*picture, frame);
  frame.resize(std::size_t{1} * kSide * kSide);
  if (status.code() != crop->fit(*picture, frame).code()) std::abort();
  return 0;
}
