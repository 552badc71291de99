#include "media/sources/video_decoder.h"

#include <utility>

#include "base/seconds_text.h"
#include "base/url_text.h"
#include "edgepipe/sync.h"
#include "media/pictures/pnm_header.h"

namespace edgepipe {
namespace {

constexpr std::chrono::seconds kProcessEnds{5};

std::vector<std::string> command(const VideoDecoder::Options& options) {
  std::vector<std::string> arguments{"ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error"};
  // The decoder itself refuses larger pictures, before it allocates them.
  arguments.insert(arguments.end(), {"-max_pixels", std::to_string(options.most_pixels)});
  arguments.insert(arguments.end(), options.input.begin(), options.input.end());
  // Timestamps are ignored, so no frame is repeated or dropped to keep a rate.
  arguments.insert(arguments.end(), {"-map", "0:v:0", "-vf", "settb=1/25,setpts=N", "-r", "25"});
  // For deeper colours (HDR, gray16), ffmpeg would produce 16 bits per channel.
  arguments.insert(arguments.end(), {"-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"});
  return arguments;
}

}  // namespace

VideoDecoder::VideoDecoder(Options options, ChildProcess process)
    : options_(std::move(options)),
      process_(std::move(process)),
      stream_(process_.take_output(), options_.waiting) {}

Result<std::unique_ptr<VideoDecoder>> VideoDecoder::start(Options options) {
  Result<ChildProcess> process = ChildProcess::start(command(options));
  if (process.ok()) {
    return std::unique_ptr<VideoDecoder>(new VideoDecoder(std::move(options), *std::move(process)));
  }
  if (process.status().code() != Code::kNotFound) return process.status();
  return Status(Code::kUnsupported,
                options.name + ": decoding a video needs ffmpeg, which is not installed here",
                "install the package ffmpeg");
}

Result<bool> VideoDecoder::arrives(const std::atomic<bool>& stop) {
  if (shape_) return true;
  Result<std::optional<PnmHeader>> header = read_pnm_header(stream_, stop);
  if (!header.ok()) return lost(header.status());
  if (!*header) {
    if (stop) return false;
    const Status ended = process_.wait(Clock::now() + kProcessEnds);
    return ended.ok() ? Result(false) : told(ended);
  }
  const auto [gray, width, height] = **header;
  if (Status status = check_size(width, height, options_.most_pixels); !status.ok()) {
    return status.with_context(options_.name);
  }
  shape_ = Picture{
      .format = gray ? PixelFormat::kGray : PixelFormat::kRgb, .width = width, .height = height};
  return true;
}

Result<bool> VideoDecoder::next(PicturePool& pool, PictureLease& lease,
                                const std::atomic<bool>& stop) {
  Result<bool> more = arrives(stop);
  if (!more.ok() || !*more) return more;
  PictureLease picture = pool.lend(*shape_);
  shape_.reset();
  more = stream_.read(PicturePool::writable(picture), stop);
  if (!more.ok()) return lost(more.status());
  if (!*more) return stop ? more : lost(Status(Code::kCorrupt, "the video ends too early"));
  lease = std::move(picture);
  return true;
}

/// Replaces the error of a truncated video with the decoder's own message, if there is one.
Status VideoDecoder::lost(const Status& status) {
  if (status.code() == Code::kDeadline) {
    return Status(
        Code::kDeadline,
        options_.name + ": no picture from ffmpeg within " + seconds_text(options_.waiting.limit),
        "check that the file can be read, and that ffmpeg decodes it");
  }
  const Status ended = process_.wait(Clock::now() + kProcessEnds);
  return ended.ok() ? status.with_context(options_.name) : told(ended);
}

Status VideoDecoder::told(const Status& status) const {
  return Status(status.code(),
                options_.name + ": " + replaced(status.message(), options_.secret, options_.name),
                options_.remedy.empty()
                    ? "check that ffmpeg decodes it, and that its pictures have at most " +
                          std::to_string(options_.most_pixels) + " pixels"
                    : options_.remedy);
}

}  // namespace edgepipe
