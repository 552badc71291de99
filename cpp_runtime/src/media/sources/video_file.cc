#include <optional>
#include <utility>

#include "base/byte_stream.h"
#include "base/child_process.h"
#include "base/seconds_text.h"
#include "edgepipe/picture_source.h"
#include "media/pictures/pnm_header.h"
#include "media/sources/pacer.h"
#include "media/sources/picture_pool.h"

namespace edgepipe {
namespace {

constexpr std::chrono::seconds kDecoderEnds{5};

/// The command that decodes any video file to a stream of PPM pictures, one for each coded frame.
/// Timestamps are ignored, so no frame is repeated or dropped to keep a rate.
std::vector<std::string> decoder_of(const std::filesystem::path& path, bool loop,
                                    std::uint64_t most_pixels) {
  std::vector<std::string> arguments{"ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error"};
  if (loop) arguments.insert(arguments.end(), {"-stream_loop", "-1"});
  // The decoder itself refuses larger pictures, before it allocates them.
  arguments.insert(arguments.end(), {"-max_pixels", std::to_string(most_pixels)});
  // Prevents file names from being parsed as a protocol or an option.
  arguments.insert(arguments.end(), {"-i", "file:" + path.string(), "-map", "0:v:0"});
  arguments.insert(arguments.end(), {"-vf", "settb=1/25,setpts=N", "-r", "25"});
  // For deeper colours (HDR, gray16), ffmpeg would produce 16 bits per channel.
  arguments.insert(arguments.end(), {"-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"});
  return arguments;
}

class VideoFile final : public PictureSource {
 public:
  VideoFile(ChildProcess decoder, std::string name, const Pace& pace, const SilencePolicy& policy,
            std::uint64_t most_pixels)
      : name_(std::move(name)),
        limit_(policy.limit),
        most_pixels_(most_pixels),
        decoder_(std::move(decoder)),
        stream_(decoder_.take_output(), {.limit = policy.limit, .steps = &steps_}),
        pacer_(pace) {}

  /// Reads the first picture's header, so that a file that is not a video fails immediately.
  Status begin(const std::atomic<bool>& stop) {
    Result<bool> more = read_header(stop);
    if (!more.ok()) return more.status();
    if (!*more && !stop) return Status(Code::kCorrupt, name_ + ": no pictures found");
    return {};
  }

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    lease.release();
    if (!pacer_.wait(stop)) return false;
    if (!shape_) {
      Result<bool> more = read_header(stop);
      if (!more.ok() || !*more) return more;
    }
    PictureLease picture = pool_->lend(*shape_);
    shape_.reset();
    Result<bool> more = stream_.read(PicturePool::writable(picture), stop);
    if (!more.ok()) return lost(more.status());
    if (!*more) return stop ? more : lost(Status(Code::kCorrupt, "the video ends too early"));
    ++taken_;
    lease = std::move(picture);
    return true;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = taken_, .taken = taken_, .steps = pacer_.steps() + steps_};
  }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return std::filesystem::path(name_).filename().string() + "#" + std::to_string(number);
  }

  [[nodiscard]] std::string description() const override { return "video file " + name_; }

 private:
  /// False at the end of the video, if the decoder exits successfully.
  Result<bool> read_header(const std::atomic<bool>& stop) {
    Result<std::optional<PnmHeader>> header = read_pnm_header(stream_, stop);
    if (!header.ok()) return lost(header.status());
    if (!*header) {
      if (stop) return false;
      Status status = decoder_.wait(Clock::now() + kDecoderEnds);
      return status.ok() ? Result(false) : told_by_decoder(status);
    }
    const auto [gray, width, height] = **header;
    if (Status status = check_size(width, height, most_pixels_); !status.ok()) {
      return status.with_context(name_);
    }
    shape_ = Picture{
        .format = gray ? PixelFormat::kGray : PixelFormat::kRgb, .width = width, .height = height};
    return true;
  }

  /// Replaces the error of a truncated video with the decoder's own message, if there is one.
  Status lost(const Status& status) {
    if (status.code() == Code::kDeadline) {
      return Status(Code::kDeadline,
                    name_ + ": no picture from ffmpeg within " + seconds_text(limit_),
                    "check that the file can be read, and that ffmpeg decodes it");
    }
    const Status told = decoder_.wait(Clock::now() + kDecoderEnds);
    return told.ok() ? status.with_context(name_) : told_by_decoder(told);
  }

  [[nodiscard]] Status told_by_decoder(const Status& status) const {
    return status.with_context(name_).advised(
        "check that ffmpeg decodes it, and that its pictures have at most " +
        std::to_string(most_pixels_) + " pixels");
  }

  std::string name_;
  std::chrono::milliseconds limit_;  // for a picture
  std::uint64_t most_pixels_;
  std::atomic<std::uint64_t> steps_{0};  // of the stream
  ChildProcess decoder_;
  ByteStream stream_;
  Pacer pacer_;
  std::optional<Picture> shape_;  // of the picture whose header has been read
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace

Result<std::unique_ptr<PictureSource>> open_video_file(const std::filesystem::path& path,
                                                       const Pace& pace,
                                                       const std::atomic<bool>& stop,
                                                       const SilencePolicy& policy,
                                                       std::uint64_t most_pixels) {
  Result<ChildProcess> decoder = ChildProcess::start(decoder_of(path, pace.loop, most_pixels));
  if (!decoder.ok()) {
    if (decoder.status().code() != Code::kNotFound) return decoder.status();
    return Status(Code::kUnsupported,
                  path.string() + ": decoding a video needs ffmpeg, which is not installed here",
                  "install the package ffmpeg");
  }
  auto video =
      std::make_unique<VideoFile>(*std::move(decoder), path.string(), pace, policy, most_pixels);
  if (Status status = video->begin(stop); !status.ok()) return status;
  return std::unique_ptr<PictureSource>(std::move(video));
}

}  // namespace edgepipe
