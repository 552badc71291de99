#include "programs/stream_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace edgepipe::programs {
namespace {

constexpr int kMostSide = 3840;  // pixels

std::string set_size(const std::string& value, VideoStream::Options& options) {
  const std::size_t by = std::min(value.find('x'), value.size());
  const std::string_view text = value;
  const auto read = [](std::string_view number, int& pixels) {
    return parse_number(number, pixels) && pixels >= 16 && pixels <= kMostSide && pixels % 2 == 0;
  };
  const bool is_read = read(text.substr(0, by), options.width) &&
                       read(text.substr(std::min(by + 1, text.size())), options.height);
  return is_read ? "" : "two even numbers, e.g. 640x360";
}

}  // namespace

void add_stream_options(OptionTable& table, VideoStream::Options& options) {
  table.section("a video stream")
      .value("--stream", "DEST",
             "stream the annotated pictures as H.264, encoded by ffmpeg: to a folder or a "
             "playlist (.m3u8), by HLS, or to an RTSP server, e.g. rtsp://server/door. A stream "
             "that fails is started again; it never delays the pipeline",
             to_text(options.destination))
      .value("--stream-fps", "N",
             "frames per second of the stream (default: 15). A frame is repeated until there is a "
             "newer one",
             to_number(options.frames_per_second, 1.0, 120.0, "1 to 120 frames per second"))
      .value("--stream-size", "WxH",
             "pixels of the stream; pictures are fitted into it (default: the first picture's "
             "size, halved or divided by 3, 4, ... until it has at most as many as 1280x720)",
             [&options](const std::string& value) { return set_size(value, options); })
      .value("--stream-kbits", "N", "at most N kilobits per second (default: 4000)",
             to_number(options.kilobits_per_second, 50, 100000, "50 to 100000 kilobits"));
}

std::string check_stream_options(const VideoStream::Options& options) {
  const VideoStream::Options unused;
  const bool is_changed = options.frames_per_second != unused.frames_per_second ||
                          options.width != unused.width ||
                          options.kilobits_per_second != unused.kilobits_per_second;
  return options.destination.empty() && is_changed
             ? "--stream-fps, --stream-size and --stream-kbits need --stream"
             : "";
}

StreamOutput::StreamOutput(Session& session, PictureInput::Copies& copies,
                           std::unique_ptr<VideoStream> stream)
    : session_(session), copies_(copies), stream_(std::move(stream)) {}

Result<std::unique_ptr<StreamOutput>> StreamOutput::open(const VideoStream::Options& options,
                                                         Session& session) {
  Result<std::unique_ptr<VideoStream>> stream = VideoStream::start(
      options, [&session](int label_index) { return session.postprocessor().label(label_index); });
  if (!stream.ok()) return stream.status();
  // Enough to be reduced to a size that was asked for: copies are reduced by whole numbers only.
  constexpr std::uint64_t kUsual = std::uint64_t{1280} * 720;
  const std::uint64_t asked = std::uint64_t{4} * static_cast<unsigned>(options.width) *
                              static_cast<unsigned>(options.height);
  PictureInput::Copies& copies = session.pictures().add_copies(asked > 0 ? asked : kUsual);
  copies.ask(PictureInput::Copies::kAll);
  return std::unique_ptr<StreamOutput>(new StreamOutput(session, copies, *std::move(stream)));
}

void StreamOutput::take(const OutputFrame& frame, const FrameResult& in_picture) {
  const PictureInput::Copy* const copy = copies_.of(frame);
  if (copy == nullptr) return;
  const Placement& placement = session_.pictures().placement(frame);
  stream_->offer(copy->picture, in_picture, placement.width, placement.height);
}

nlohmann::ordered_json StreamOutput::json() const {
  const StreamCounters counters = stream_->counters();
  return {{"destination", stream_->destination()},
          {"sent", counters.sent},
          {"dropped", counters.dropped},
          {"reconnects", counters.reconnects},
          {"outage_s", static_cast<double>(counters.outage.count()) / 1e3},
          {"fault", counters.fault}};
}

std::string StreamOutput::account() const {
  const StreamCounters counters = stream_->counters();
  return "stream: " + std::to_string(counters.sent) + " sent, " + std::to_string(counters.dropped) +
         " dropped, " + std::to_string(counters.reconnects) + " reconnects";
}

}  // namespace edgepipe::programs
