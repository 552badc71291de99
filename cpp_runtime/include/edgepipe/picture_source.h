// PictureSource: pictures for a pipeline, from a camera, files or a pipe, or synthetic.
//
//   Result<std::unique_ptr<PictureSource>> source = open_picture_folder("pictures", {});
//   Result<bool> more = (*source)->next(lease, stop);  // false: no more, or `stop` is set
//   fitter.fit(lease.picture(), frame);
//
// Pictures stay where they arrived (in the driver's buffer or the mapped file) until their lease
// ends, even if the source is closed first. A reader holds at most kMostLent pictures at a time, so
// that a source with few buffers always has one left to fill.
//
// A source that can wait (files, videos, a pipe) does so while the pipeline is busy; one that
// cannot (a camera, also one on the network) drops its oldest picture and counts it.
//
// A source that falls silent has failed (SilencePolicy): one that can be opened again (a camera, a
// FIFO) is closed and reopened until it delivers, which counters() and fault() show. Others end
// with kDeadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct SourceCounters {
  // captured == taken + dropped + waiting
  std::uint64_t captured = 0;    // complete pictures that arrived
  std::uint64_t taken = 0;       // given out by next()
  std::uint64_t dropped = 0;     // replaced by a newer one before they were taken
  std::uint64_t waiting = 0;     // 1 while the newest one waits to be taken
  std::uint64_t missed = 0;      // gaps in the driver's sequence, or marked as damaged
  std::uint64_t silences = 0;    // how often no picture came within the limit
  std::uint64_t reconnects = 0;  // how often it was opened again
  // Grows while the source makes progress as configured: with pictures, waits for the next
  // picture's time, and attempts to open it again; without a time limit also while it is silent.
  std::uint64_t steps = 0;
  std::chrono::milliseconds outage{0};  // since the last picture of a failed source; 0: it works
};

/// What a source does about silence.
struct SilencePolicy {
  std::chrono::milliseconds limit{0};    // without a picture, the source has failed; 0: never
  std::chrono::milliseconds give_up{0};  // of an outage; then next() returns kDevice; 0: never

  /// Called when an outage begins and when it ends; on any thread, must not block.
  std::function<void(const std::string& text)> on_fault = {};
};

class PictureSource {
 public:
  virtual ~PictureSource() = default;

  /// How many pictures a reader may hold: one being read and one waiting.
  static constexpr std::size_t kMostLent = 2;

  /// Lends the next picture and returns the one that `lease` held. False at the end of the source
  /// or once `stop` is set. Blocks; checks `stop` ten times a second. One thread at a time.
  virtual Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) = 0;

  /// For any thread.
  [[nodiscard]] virtual SourceCounters counters() const = 0;

  /// The error that began the present or last outage; "" if there was none. For any thread.
  [[nodiscard]] virtual std::string fault() const { return ""; }

  /// Whether the source continues after a damaged picture.
  [[nodiscard]] virtual bool live() const { return false; }

  /// The name of the picture that the `number`-th call of next() lent, for results: "dog.jpg",
  /// "clip.mp4#7". For any thread.
  [[nodiscard]] virtual std::string picture_name(std::uint64_t number) const {
    return "#" + std::to_string(number);
  }

  /// A description for people: "picture folder x, 12 files".
  [[nodiscard]] virtual std::string description() const = 0;
};

struct Pace {
  double pictures_per_second = 0;  // 0: as fast as they are taken
  bool loop = false;               // start again at the end
};

// Every source refuses a picture of more than `most_pixels` before it allocates memory for it.

/// The PPM (P6), PGM (P5), JPEG, PNG and BMP pictures of a folder by name, or a single picture.
/// kNotFound if there is none, kUnsupported if one is TIFF or WebP.
Result<std::unique_ptr<PictureSource>> open_picture_folder(const std::filesystem::path& path,
                                                           const Pace& pace,
                                                           std::uint64_t most_pixels = kMostPixels);

/// Whether `path` is for open_picture_folder: a folder, or a file with a picture's suffix, also of
/// a kind that it refuses.
bool is_picture_path(const std::filesystem::path& path);

/// Whether `path` is a file of exactly one PPM or PGM picture, whose size may be any.
bool is_one_pnm(const std::filesystem::path& path);

/// Whether `path` is a file that begins like a compressed picture or a video. Blocks on the file.
bool is_compressed_file(const std::filesystem::path& path);

/// The pictures of a video file in any format that ffmpeg decodes, kRgb. ffmpeg runs as a
/// separate process; kUnsupported if it is not installed, kCorrupt with its message if it fails.
/// kDeadline if it decodes nothing for the policy's limit. Blocks until the first picture or
/// `stop`.
Result<std::unique_ptr<PictureSource>> open_video_file(const std::filesystem::path& path,
                                                       const Pace& pace,
                                                       const std::atomic<bool>& stop,
                                                       const SilencePolicy& policy = {},
                                                       std::uint64_t most_pixels = kMostPixels);

/// Whether `text` begins like an address, such as "rtsp://", also of a kind that
/// open_network_camera refuses.
bool is_network_address(std::string_view text);

/// The newest picture, kRgb, of a camera or server that ffmpeg reads over the network. When it
/// fails, ends or falls silent, it is opened again once a second, until the policy gives up. A name
/// and a password in `url` appear in no text; but other users of this machine see them among
/// ffmpeg's arguments. Errors as open_video_file, and kUnsupported for an address other than of
/// rtsp, rtsps, http, https, rtmp, srt or udp. Blocks until the first picture or `stop`.
Result<std::unique_ptr<PictureSource>> open_network_camera(const std::string& url,
                                                           const std::atomic<bool>& stop,
                                                           const SilencePolicy& policy = {},
                                                           std::uint64_t most_pixels = kMostPixels);

/// Consecutive raw pictures without padding, from a file, a FIFO or standard input ("-"). Input
/// that ends inside a picture is kCorrupt. A FIFO never ends: after its writer has gone or fallen
/// silent, it is opened again for the next one, and a picture that had begun is dropped.
Result<std::unique_ptr<PictureSource>> open_picture_pipe(const std::filesystem::path& path,
                                                         PixelFormat format, int width, int height,
                                                         const SilencePolicy& policy = {});

/// Moving discs on a slow gradient, kRgb, identical on every machine, without end.
std::unique_ptr<PictureSource> make_synthetic_pictures(int width, int height, const Pace& pace);

}  // namespace edgepipe
