// VideoDecoder: ffmpeg as a separate process that turns a video or a stream into pictures.
//
//   Result<VideoDecoder> decoder = VideoDecoder::start({.input = {"-i", "file:clip.mp4"}, ...});
//   Result<bool> more = decoder->arrives(stop);     // reads the next picture's header
//   more = decoder->next(*pool, lease, stop);       // false: the end, or `stop`
//
// Pictures are kRgb. Each coded frame is one picture: none is repeated or dropped to keep a rate.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/child_process.h"
#include "edgepipe/picture_source.h"
#include "media/sources/picture_pool.h"

namespace edgepipe {

class VideoDecoder {
 public:
  struct Options {
    std::string name;                  // begins every error's text
    std::vector<std::string> input;    // ffmpeg's arguments about its input: -i, what precedes it
    std::string secret = {};           // replaced by `name` where ffmpeg's messages contain it
    std::string remedy = {};           // the hint of errors; empty: that of a file
    ByteStream::Waiting waiting = {};  // for a picture
    std::uint64_t most_pixels = kMostPixels;
  };

  /// kUnsupported if ffmpeg is not installed.
  static Result<std::unique_ptr<VideoDecoder>> start(Options options);

  /// Blocks until a picture begins. False at the end of the input, if ffmpeg exits successfully,
  /// or once `stop` is set. kCorrupt with ffmpeg's message if it fails, kDeadline if nothing comes
  /// within the time limit; a picture that is too large is an error, too.
  Result<bool> arrives(const std::atomic<bool>& stop);

  /// Lends the next picture. Results and errors as arrives().
  Result<bool> next(PicturePool& pool, PictureLease& lease, const std::atomic<bool>& stop);

 private:
  VideoDecoder(Options options, ChildProcess process);

  Status lost(const Status& status);
  [[nodiscard]] Status told(const Status& status) const;

  Options options_;
  ChildProcess process_;
  ByteStream stream_;
  std::optional<Picture> shape_;  // of the picture whose header has been read
};

}  // namespace edgepipe
