// JpegCodec: decodes and encodes JPEG with libturbojpeg, which is loaded at run time.
//
//   Result<JpegCodec> codec = JpegCodec::create();  // kUnsupported: the library is not installed
//   Result<Picture> picture = codec->decode(bytes);
//
// The library is opened by name (libturbojpeg.so.0), so the same program runs on boards without it.
// Its baseline decoder uses integers, but its output bits depend on its version.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"

namespace edgepipe {

class JpegCodec {
 public:
  static Result<JpegCodec> create();
  JpegCodec(JpegCodec&&) noexcept;
  JpegCodec& operator=(JpegCodec&&) noexcept;
  ~JpegCodec();

  /// Decodes to kRgb; the picture is valid until the next decode. kCorrupt for damage, even if the
  /// library could continue, for CMYK, and for more than `most_pixels`, for which only the header
  /// is read. Allocates only when the size grows. One thread at a time.
  Result<Picture> decode(std::span<const std::byte> bytes, std::uint64_t most_pixels = kMostPixels);

  /// Encodes a checked picture of kRgb, kBgr or kGray; `quality` is 1 to 100. The bytes are valid
  /// until the next encode. One thread at a time.
  Result<std::span<const std::byte>> encode(const Picture& picture, int quality);

 private:
  struct Library;
  explicit JpegCodec(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
  std::vector<std::byte> pixels_;
};

}  // namespace edgepipe
