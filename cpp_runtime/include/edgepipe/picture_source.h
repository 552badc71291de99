// PictureSource: pictures for a pipeline, from a camera, files, a pipe, or made up.
//
//   Result<std::unique_ptr<PictureSource>> source = open_picture_folder("pictures", {});
//   Result<bool> more = (*source)->next(lease, stop);  // false: no more, or `stop` is set
//   fitter.fit(lease.picture(), frame);
//
// Pictures lie where they came in (the driver's buffer, the mapped file) and stay there until their
// lease ends, also when the source has gone. A reader holds at most kMostLent at a time, so that a
// source with few buffers has one left to fill.
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
#include "edgepipe/picture_lease.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct SourceCounters {
  // captured == taken + dropped, but for the newest picture while it waits to be taken.
  std::uint64_t captured = 0;    // whole pictures that came in
  std::uint64_t taken = 0;       // given out by next()
  std::uint64_t dropped = 0;     // replaced by a newer one before they were taken
  std::uint64_t missed = 0;      // never came in: gaps in the driver's numbers, marked as damaged
  std::uint64_t reconnects = 0;  // times the device came back
};

class PictureSource {
 public:
  virtual ~PictureSource() = default;

  /// How many pictures a reader may hold: one that it reads and one that waits.
  static constexpr std::size_t kMostLent = 2;

  /// Lends the next picture; what `lease` held before goes back. False at the end of the source or
  /// once `stop` is set. Blocks; looks at `stop` ten times a second. One thread at a time.
  virtual Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) = 0;

  /// For any thread.
  [[nodiscard]] virtual SourceCounters counters() const = 0;

  /// A live source goes on after a damaged picture.
  [[nodiscard]] virtual bool live() const { return false; }

  /// What it is, for people: "picture folder x, 12 files".
  [[nodiscard]] virtual std::string description() const = 0;
};

struct Pace {
  double pictures_per_second = 0;  // 0: as fast as they are taken
  bool loop = false;               // start again at the end
};

/// The PPM (P6), PGM (P5) and JPEG pictures of a folder by name, or a single picture. kNotFound
/// when there is none.
Result<std::unique_ptr<PictureSource>> open_picture_folder(const std::filesystem::path& path,
                                                           const Pace& pace);

/// Whether open_picture_folder takes `path`: a folder, or a file with a picture's suffix.
bool is_picture_path(const std::filesystem::path& path);

/// The pictures of a video file in any format that ffmpeg decodes, kRgb. That program does it, in a
/// process of its own; kUnsupported when it is not installed, kCorrupt with its words when it
/// fails. Blocks until the first picture or `stop`.
Result<std::unique_ptr<PictureSource>> open_video_file(const std::filesystem::path& path,
                                                       const Pace& pace,
                                                       const std::atomic<bool>& stop);

/// Raw pictures without padding, one after the other, from a file or standard input ("-"). A pipe
/// that ends inside a picture is kCorrupt.
Result<std::unique_ptr<PictureSource>> open_picture_pipe(const std::filesystem::path& path,
                                                         PixelFormat format, int width, int height);

/// Moving discs on a slow gradient, kRgb, the same on every machine; it never ends.
std::unique_ptr<PictureSource> make_synthetic_pictures(int width, int height, const Pace& pace);

}  // namespace edgepipe
