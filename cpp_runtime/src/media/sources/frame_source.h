// FrameSource: frames from a file or standard input, as raw bytes or as PPM/PGM pictures.
//
//   Result<FrameSource> source = FrameSource::open("clip.raw", FrameSource::Format::kRaw, picture);
//   Result<bool> more = source->read(frame.input(0), stop);  // false: the input has ended
//
// Raw: the consecutive bytes of frames. PPM (P6) and PGM (P5), 8 bits per channel: any number of
// consecutive pictures of exactly the network's size; channels are reordered for the network.
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

  /// Opens `path`, or standard input for "-". kNotFound if it cannot be opened. Does not wait for
  /// the writer of a FIFO.
  static Result<FrameSource> open(const std::filesystem::path& path, Format format,
                                  const Preprocess& preprocess,
                                  const ByteStream::Waiting& waiting = {});

  /// Fills `bytes` with the next frame or its next part. False at the end of the input or
  /// once `stop` is set; an input that ends inside a frame or is compressed is kCorrupt, one that
  /// is silent for the time limit is kDeadline. Blocks; checks `stop` ten times a second. Allocates
  /// nothing once warm.
  Result<bool> read(std::span<std::byte> bytes, const std::atomic<bool>& stop);

  /// Whether the end of the input was read.
  [[nodiscard]] bool ended() const { return stream_.ended(); }

 private:
  FrameSource(ByteStream stream, std::string name, Format format, const Preprocess& preprocess);

  Result<bool> read_raw(std::span<std::byte> bytes, const std::atomic<bool>& stop);
  Result<bool> read_picture(std::span<std::byte> bytes, const std::atomic<bool>& stop);

  ByteStream stream_;
  std::string name_;
  Format format_;
  Preprocess preprocess_;
  std::uint64_t frames_ = 0;
};

}  // namespace edgepipe
