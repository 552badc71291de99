// FrameSource: frames from a file or standard input, as raw bytes or as PPM/PGM pictures.
//
//   Result<FrameSource> source = FrameSource::open("clip.raw", FrameSource::Format::kRaw, picture);
//   Result<bool> more = source->read(frame.input(0), stop);  // false: the input has ended
//
// Raw: the frames' bytes one after the other. PPM (P6) and PGM (P5), 8 bits a channel: any number
// one after the other, of exactly the network's size; colours are brought into its order.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "edgepipe/manifest.h"
#include "edgepipe/status.h"

namespace edgepipe {

class FrameSource {
 public:
  enum class Format { kRaw, kPictures };

  /// Opens `path`, or standard input for "-". kNotFound when it cannot be opened.
  static Result<FrameSource> open(const std::filesystem::path& path, Format format,
                                  const Preprocess& preprocess);

  /// Fills `bytes` with the next frame, or with its next part. False at the end of the input or
  /// once `stop` is set; an input that ends inside a frame is kCorrupt. Blocks; looks at `stop` ten
  /// times a second. Allocates nothing once warm.
  Result<bool> read(std::span<std::byte> bytes, const std::atomic<bool>& stop);

 private:
  FrameSource(FileDescriptor file, std::string name, Format format, const Preprocess& preprocess);

  Result<bool> read_picture(std::span<std::byte> bytes, const std::atomic<bool>& stop);

  ByteStream stream_;
  std::string name_;
  Format format_;
  Preprocess preprocess_;
  std::uint64_t frames_ = 0;
};

}  // namespace edgepipe
