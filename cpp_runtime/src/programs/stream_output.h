// StreamOutput: the option --stream of a program: its annotated frames as a video stream.
//
//   add_stream_options(table, options.stream);
//   Result<std::unique_ptr<StreamOutput>> output = StreamOutput::open(options.stream, session);
//   (*output)->take(frame, result);      // for every frame; result is in pixels of its picture
//   (*output)->json(), (*output)->account()
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "media/sinks/video_stream.h"
#include "programs/option_table.h"

namespace edgepipe::programs {

/// Adds --stream and the options that need it.
void add_stream_options(OptionTable& table, VideoStream::Options& options);

/// An error text if options that need --stream are given without it, or "".
std::string check_stream_options(const VideoStream::Options& options);

class StreamOutput {
 public:
  /// Errors as VideoStream::start. Call it before the first frame.
  static Result<std::unique_ptr<StreamOutput>> open(const VideoStream::Options& options,
                                                    Session& session);

  /// Streams a frame whose picture has been copied; does not block.
  void take(const OutputFrame& frame, const FrameResult& in_picture);

  /// As VideoStream::finish.
  void finish() { stream_->finish(); }

  [[nodiscard]] StreamCounters counters() const { return stream_->counters(); }

  /// The keys of `live.stream` (docs/guides/statistics.md).
  [[nodiscard]] nlohmann::ordered_json json() const;

  /// The line of the program's summary.
  [[nodiscard]] std::string account() const;

 private:
  StreamOutput(Session& session, PictureInput::Copies& copies, std::unique_ptr<VideoStream> stream);

  Session& session_;
  PictureInput::Copies& copies_;
  std::unique_ptr<VideoStream> stream_;
};

}  // namespace edgepipe::programs
