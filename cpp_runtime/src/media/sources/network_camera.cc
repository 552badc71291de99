#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "base/url_text.h"
#include "edgepipe/picture_source.h"
#include "media/sources/newest_picture.h"
#include "media/sources/outage.h"
#include "media/sources/picture_pool.h"
#include "media/sources/stop_interval.h"
#include "media/sources/video_decoder.h"

namespace edgepipe {
namespace {

constexpr std::chrono::milliseconds kReconnect{1000};  // between two attempts
constexpr std::string_view kAfterScheme = "://";
constexpr std::array<std::string_view, 7> kSchemes = {"rtsp", "rtsps", "http", "https",
                                                      "rtmp", "srt",   "udp"};

/// A camera that ffmpeg reads over the network. As V4l2Camera, it keeps the newest picture and is
/// opened again when it fails.
class NetworkCamera final : public PictureSource {
 public:
  NetworkCamera(const std::string& url, SilencePolicy policy, std::uint64_t most_pixels)
      : url_(url),
        name_(without_password(url)),
        policy_(policy),
        most_pixels_(most_pixels),
        outage_(name_, std::move(policy)) {}

  ~NetworkCamera() override {
    ending_ = true;
    if (thread_) thread_->join();
  }

  /// Waits for the first picture, so that a wrong address fails immediately.
  Status begin(const std::atomic<bool>& stop) {
    Result<std::unique_ptr<VideoDecoder>> decoder = connect(stop);
    if (!decoder.ok()) return decoder.status();
    decoder_ = *std::move(decoder);
    Result<Thread> thread = Thread::start({.name = "camera", .cores = {}}, [this] { capture(); });
    if (!thread.ok()) return thread.status();
    thread_.emplace(std::move(*thread));
    return {};
  }

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    return newest_.take(lease, outage_, stop);
  }

  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = newest_.counters();
    outage_.count_in(counters);
    if (policy_.limit.count() == 0) counters.steps += waits_;  // silence is allowed
    return counters;
  }

  [[nodiscard]] std::string fault() const override { return outage_.fault(); }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return name_ + "#" + std::to_string(number);
  }

  [[nodiscard]] std::string description() const override { return name_; }

 private:
  /// A decoder whose first picture arrives, or a decoder if `stop` is set.
  Result<std::unique_ptr<VideoDecoder>> connect(const std::atomic<bool>& stop) {
    VideoDecoder::Options options{.name = name_,
                                  .input = {"-fflags", "nobuffer", "-flags", "low_delay"},
                                  .secret = url_,
                                  .remedy =
                                      "check the address, the name and password in it, and "
                                      "that ffmpeg decodes what is there; pictures may have "
                                      "at most " +
                                      std::to_string(most_pixels_) + " pixels",
                                  .waiting = {.limit = policy_.limit, .steps = &waits_},
                                  .most_pixels = most_pixels_};
    // Over UDP, a lost packet is a damaged picture, and a firewall may block the camera's ports.
    if (url_.starts_with("rtsp")) {
      options.input.insert(options.input.end(), {"-rtsp_transport", "tcp"});
    }
    options.input.insert(options.input.end(), {"-i", url_});
    Result<std::unique_ptr<VideoDecoder>> decoder = VideoDecoder::start(std::move(options));
    if (!decoder.ok()) return decoder.status();
    const Result<bool> more = (*decoder)->arrives(stop);
    if (!more.ok()) return more.status();
    if (!*more && !stop) return Status(Code::kCorrupt, name_ + ": no pictures found");
    return decoder;
  }

  /// The body of the capturing thread. A failed allocation loses a picture or delays the next one.
  void capture() {
    while (!ending_) {
      const Status status = or_out_of_memory([this] {
        decoder_ ? capture_one() : reconnect();
        return Status();
      });
      if (!status.ok()) std::this_thread::sleep_for(kStopInterval);
    }
  }

  void capture_one() {
    PictureLease picture;
    const Result<bool> more = decoder_->next(*pool_, picture, ending_);
    if (ending_) return;
    if (more.ok() && *more) {
      outage_.delivered();
      newest_.keep(std::move(picture));
      return;
    }
    decoder_.reset();
    due_ = Clock::now() + kReconnect;
    if (more.ok()) {
      outage_.failed(name_ + ": the stream has ended");
    } else if (more.status().code() == Code::kDeadline) {
      outage_.failed_silently();
    } else {
      outage_.failed(more.status().message());
    }
  }

  void reconnect() {
    while (!ending_ && Clock::now() < due_) {
      std::this_thread::sleep_until(std::min(due_, Clock::now() + kStopInterval));
    }
    if (ending_) return;
    Result<std::unique_ptr<VideoDecoder>> decoder = connect(ending_);
    due_ = Clock::now() + kReconnect;
    if (ending_) return;
    outage_.attempted(decoder.ok());
    if (decoder.ok()) decoder_ = *std::move(decoder);
  }

  const std::string url_;
  const std::string name_;
  const SilencePolicy policy_;
  const std::uint64_t most_pixels_;
  Outage outage_;
  NewestPicture newest_;
  std::atomic<std::uint64_t> waits_{0};
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::unique_ptr<VideoDecoder> decoder_;  // of the capturing thread; null while out
  Clock::time_point due_{};                // the same; of the next attempt
  std::atomic<bool> ending_{false};
  std::optional<Thread> thread_;
};

}  // namespace

bool is_network_address(std::string_view text) {
  const std::string_view scheme = text.substr(0, text.find(kAfterScheme));
  return scheme.size() < text.size() && !scheme.empty() &&
         std::ranges::all_of(scheme, [](char c) { return c >= 'a' && c <= 'z'; });
}

Result<std::unique_ptr<PictureSource>> open_network_camera(const std::string& url,
                                                           const std::atomic<bool>& stop,
                                                           const SilencePolicy& policy,
                                                           std::uint64_t most_pixels) {
  const std::string_view scheme = std::string_view(url).substr(0, url.find(kAfterScheme));
  if (std::ranges::find(kSchemes, scheme) == kSchemes.end()) {
    return Status(Code::kUnsupported,
                  without_password(url) + ": found an address of " + std::string(scheme) +
                      ", expected rtsp, rtsps, http, https, rtmp, srt or udp",
                  "begin it with one of these, as in rtsp://door/stream");
  }
  auto camera = std::make_unique<NetworkCamera>(url, policy, most_pixels);
  if (Status status = camera->begin(stop); !status.ok()) return status;
  return std::unique_ptr<PictureSource>(std::move(camera));
}

}  // namespace edgepipe
