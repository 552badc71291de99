#include <utility>

#include "edgepipe/picture_source.h"
#include "media/sources/pacer.h"
#include "media/sources/picture_pool.h"
#include "media/sources/video_decoder.h"

namespace edgepipe {
namespace {

class VideoFile final : public PictureSource {
 public:
  VideoFile(std::string name, const Pace& pace) : name_(std::move(name)), pacer_(pace) {}

  /// Reads the first picture's header, so that a file that is not a video fails immediately.
  Status begin(bool loop, const std::atomic<bool>& stop, const SilencePolicy& policy,
               std::uint64_t most_pixels) {
    VideoDecoder::Options options{.name = name_,
                                  .input = {},
                                  .waiting = {.limit = policy.limit, .steps = &steps_},
                                  .most_pixels = most_pixels};
    if (loop) options.input = {"-stream_loop", "-1"};
    // Prevents file names from being parsed as a protocol or an option.
    options.input.insert(options.input.end(), {"-i", "file:" + name_});
    Result<std::unique_ptr<VideoDecoder>> decoder = VideoDecoder::start(std::move(options));
    if (!decoder.ok()) return decoder.status();
    decoder_ = *std::move(decoder);
    const Result<bool> more = decoder_->arrives(stop);
    if (!more.ok()) return more.status();
    if (!*more && !stop) return Status(Code::kCorrupt, name_ + ": no pictures found");
    return {};
  }

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    lease.release();
    if (!pacer_.wait(stop)) return false;
    Result<bool> more = decoder_->next(*pool_, lease, stop);
    if (more.ok() && *more) ++taken_;
    return more;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = taken_, .taken = taken_, .steps = pacer_.steps() + steps_};
  }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return std::filesystem::path(name_).filename().string() + "#" + std::to_string(number);
  }

  [[nodiscard]] std::string description() const override { return "video file " + name_; }

 private:
  std::string name_;
  std::atomic<std::uint64_t> steps_{0};  // of the decoder
  std::unique_ptr<VideoDecoder> decoder_;
  Pacer pacer_;
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace

Result<std::unique_ptr<PictureSource>> open_video_file(const std::filesystem::path& path,
                                                       const Pace& pace,
                                                       const std::atomic<bool>& stop,
                                                       const SilencePolicy& policy,
                                                       std::uint64_t most_pixels) {
  auto video = std::make_unique<VideoFile>(path.string(), pace);
  if (Status status = video->begin(pace.loop, stop, policy, most_pixels); !status.ok()) {
    return status;
  }
  return std::unique_ptr<PictureSource>(std::move(video));
}

}  // namespace edgepipe
