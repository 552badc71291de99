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
// cannot (a camera) drops its oldest picture and counts it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct SourceCounters {
  // captured == taken + dropped, except for the newest picture while it waits to be taken.
  std::uint64_t captured = 0;    // complete pictures that arrived
  std::uint64_t taken = 0;       // given out by next()
  std::uint64_t dropped = 0;     // replaced by a newer one before they were taken
  std::uint64_t missed = 0;      // gaps in the driver's sequence, or marked as damaged
  std::uint64_t reconnects = 0;  // times that the device reappeared
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

  /// Whether the source continues after a damaged picture.
  [[nodiscard]] virtual bool live() const { return false; }

  /// A description for people: "picture folder x, 12 files".
  [[nodiscard]] virtual std::string description() const = 0;
};

struct Pace {
  double pictures_per_second = 0;  // 0: as fast as they are taken
  bool loop = false;               // start again at the end
};

/// The PPM (P6), PGM (P5) and JPEG pictures of a folder by name, or a single picture. kNotFound
/// if there is none.
Result<std::unique_ptr<PictureSource>> open_picture_folder(const std::filesystem::path& path,
                                                           const Pace& pace);

/// Whether open_picture_folder takes `path`: a folder, or a file with a picture's suffix.
bool is_picture_path(const std::filesystem::path& path);

/// The pictures of a video file in any format that ffmpeg decodes, kRgb. ffmpeg runs as a
/// separate process; kUnsupported if it is not installed, kCorrupt with its message if it fails.
/// Blocks until the first picture or `stop`.
Result<std::unique_ptr<PictureSource>> open_video_file(const std::filesystem::path& path,
                                                       const Pace& pace,
                                                       const std::atomic<bool>& stop);

/// Consecutive raw pictures without padding, from a file or standard input ("-"). A pipe
/// that ends inside a picture is kCorrupt.
Result<std::unique_ptr<PictureSource>> open_picture_pipe(const std::filesystem::path& path,
                                                         PixelFormat format, int width, int height);

/// Moving discs on a slow gradient, kRgb, identical on every machine, without end.
std::unique_ptr<PictureSource> make_synthetic_pictures(int width, int height, const Pace& pace);

}  // namespace edgepipe
