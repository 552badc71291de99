#include "media/pictures/jpeg_codec.h"

#include <turbojpeg.h>

#include <string>
#include <utility>

#include "base/loaded_library.h"

namespace edgepipe {

struct JpegCodec::Library {
  ~Library() {
    if (encoded != nullptr) release(encoded);
    if (decompressor != nullptr) destroy(decompressor);
    if (compressor != nullptr) destroy(compressor);
  }

  bool load_all() {
    const auto find = [this](auto& function, const char* name) {
      return find_function(handle.get(), name, function);
    };
    return find(init_compress, "tjInitCompress") && find(init_decompress, "tjInitDecompress") &&
           find(destroy, "tjDestroy") && find(release, "tjFree") &&
           find(read_header, "tjDecompressHeader3") && find(decompress, "tjDecompress2") &&
           find(compress, "tjCompress2") && find(error_text, "tjGetErrorStr2");
  }

  LoadedLibrary handle;
  decltype(&::tjInitCompress) init_compress = nullptr;
  decltype(&::tjInitDecompress) init_decompress = nullptr;
  decltype(&::tjDestroy) destroy = nullptr;
  decltype(&::tjFree) release = nullptr;
  decltype(&::tjDecompressHeader3) read_header = nullptr;
  decltype(&::tjDecompress2) decompress = nullptr;
  decltype(&::tjCompress2) compress = nullptr;
  decltype(&::tjGetErrorStr2) error_text = nullptr;

  tjhandle compressor = nullptr;
  tjhandle decompressor = nullptr;
  unsigned char* encoded = nullptr;  // reallocated by the library
  unsigned long encoded_bytes = 0;
};

JpegCodec::JpegCodec(std::unique_ptr<Library> library) : library_(std::move(library)) {}
JpegCodec::JpegCodec(JpegCodec&&) noexcept = default;
JpegCodec& JpegCodec::operator=(JpegCodec&&) noexcept = default;
JpegCodec::~JpegCodec() = default;

Result<JpegCodec> JpegCodec::create() {
  const std::string lacking = "libturbojpeg.so.0 cannot be loaded, it is needed for JPEG";
  constexpr const char* kInstall = "install libturbojpeg0";
  auto library = std::make_unique<Library>();
  Result<LoadedLibrary> loaded =
      load_library("libturbojpeg.so.0", Code::kUnsupported, lacking).advised(kInstall);
  if (!loaded.ok()) return loaded.status();
  library->handle = *std::move(loaded);
  if (!library->load_all()) return Status(Code::kUnsupported, lacking, kInstall);
  library->compressor = library->init_compress();
  library->decompressor = library->init_decompress();
  if (library->compressor == nullptr || library->decompressor == nullptr) {
    return Status(Code::kOutOfMemory, "libturbojpeg could not start");
  }
  return JpegCodec(std::move(library));
}

Result<Picture> JpegCodec::decode(std::span<const std::byte> bytes, std::uint64_t most_pixels) {
  // The C function does not write to the data; its older signature lacks the const.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  const auto failed = [&] {
    return Status(Code::kCorrupt,
                  std::string("JPEG: ") + library_->error_text(library_->decompressor));
  };
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colour_space = 0;
  if (library_->read_header(library_->decompressor, data, bytes.size(), &width, &height,
                            &subsampling, &colour_space) != 0) {
    return failed();
  }
  if (colour_space == TJCS_CMYK || colour_space == TJCS_YCCK) {
    return Status(Code::kCorrupt, "JPEG: found CMYK colours, for printing, expected RGB or gray",
                  "convert it to PNG: ffmpeg -i IN OUT.png");
  }
  Picture picture{.format = PixelFormat::kRgb,
                  .width = width,
                  .height = height,
                  .row_bytes = packed_row_bytes(PixelFormat::kRgb, width)};
  if (Status status = check_size(width, height, most_pixels); !status.ok()) {
    return status.with_context("JPEG");
  }
  const std::size_t needed = packed_bytes(PixelFormat::kRgb, width, height);
  if (pixels_.size() < needed) pixels_.resize(needed);
  if (library_->decompress(library_->decompressor, data, bytes.size(),
                           reinterpret_cast<unsigned char*>(pixels_.data()), width, 0, height,
                           TJPF_RGB, 0) != 0) {
    return failed();
  }
  picture.bytes = std::span(pixels_).first(needed);
  return picture;
}

Result<std::span<const std::byte>> JpegCodec::encode(const Picture& picture, int quality) {
  const bool gray = picture.format == PixelFormat::kGray;
  const int format = gray ? TJPF_GRAY : picture.format == PixelFormat::kBgr ? TJPF_BGR : TJPF_RGB;
  if (library_->compress(library_->compressor,
                         reinterpret_cast<const unsigned char*>(picture.bytes.data()),
                         picture.width, static_cast<int>(picture.row_bytes), picture.height, format,
                         &library_->encoded, &library_->encoded_bytes,
                         gray ? TJSAMP_GRAY : TJSAMP_420, quality, 0) != 0) {
    return Status(Code::kInternal,
                  std::string("JPEG: ") + library_->error_text(library_->compressor));
  }
  return std::span(reinterpret_cast<const std::byte*>(library_->encoded),
                   static_cast<std::size_t>(library_->encoded_bytes));
}

}  // namespace edgepipe
