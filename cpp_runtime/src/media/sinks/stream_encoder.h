// StreamEncoder: ffmpeg as a separate process that encodes pictures as H.264 and sends them on.
//
//   Result<std::unique_ptr<StreamEncoder>> encoder = StreamEncoder::start(destination, shape);
//   Result<bool> written = (*encoder)->write(pixels, stop);   // uint8[height, width, 3], RGB
//   if ((*encoder)->delivers()) ...                           // since the last call
//   Status status = (*encoder)->finish();                     // completes a playlist
//
// If this process is killed, ffmpeg ends, too: at once, or after it has completed the playlist. One
// thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "media/sinks/stream_destination.h"

namespace edgepipe {

class StreamEncoder {
 public:
  struct Shape {
    int width = 0;   // pixels, even
    int height = 0;  // the same
    double frames_per_second = 15;
    int kilobits_per_second = 4000;  // at most
  };

  /// Encodes a frame and drops it: kUnsupported if ffmpeg is not installed here or cannot encode
  /// H.264. Blocks for a moment. `destination` is named in errors.
  static Status check(const StreamDestination& destination);

  /// Does not wait for the destination. kUnsupported if ffmpeg is not installed here.
  static Result<std::unique_ptr<StreamEncoder>> start(const StreamDestination& destination,
                                                      const Shape& shape);

  /// Writes one frame; false once `stop` is set. kDeadline if ffmpeg takes nothing for ten seconds,
  /// kCorrupt with its reason if it has ended. Blocks while its input is full.
  Result<bool> write(std::span<const std::byte> pixels, const std::atomic<bool>& stop);

  /// Whether frames have reached the destination since the last call: a server has taken some, or
  /// the playlist has been written.
  bool delivers();

  /// Ends the stream. Blocks for three seconds at most; afterwards, only destroy the object.
  Status finish();

 private:
  StreamEncoder(StreamDestination destination, ChildProcess process, FileDescriptor input);

  static Result<std::unique_ptr<StreamEncoder>> start(const StreamDestination& destination,
                                                      const Shape& shape,
                                                      const std::vector<std::string>& output);
  Status finish(Clock::duration limit);
  Status failure(Clock::time_point deadline);
  std::uint64_t frames_sent();

  StreamDestination destination_;
  ChildProcess process_;
  FileDescriptor input_;
  FileDescriptor progress_;  // key=value lines
  std::string line_;         // of them, incomplete
  std::uint64_t sent_ = 0;
  std::filesystem::file_time_type written_{};  // the playlist
};

}  // namespace edgepipe
