// LiveStatistics: publishes a running pipeline's statistics for other processes (`edgepipe top`).
//
//   const std::unique_ptr<LiveStatistics> live = LiveStatistics::start(
//       [&] { return live_figures(network, device, pipeline.statistics(), board.read()); }, {});
//
// Four times a second the file /dev/shm/edgepipe-PID-N.json is replaced by a newer one, so a reader
// always finds a complete JSON object (docs/guides/statistics.md) and needs no lock:
//
//   {"version": 1, "id": "4711-0", "pid": 4711, "program": "edgepipe-run", "uptime_s": 83.2,
//    "live": {...}}
//
// The destructor removes the file. A file left behind by a killed process is removed by a process
// that starts ten seconds later or more. If a machine has no such folder, nothing is published, and
// that is not an error.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/board_readings.h"
#include "base/thread.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/sync.h"

namespace edgepipe {

/// One JSON object: network, device of its VTA stages, the pipeline's statistics, and the
/// machine's.
std::string live_figures(std::string_view network, std::string_view device,
                         const PipelineStatistics& statistics, const BoardReading& board);

class LiveStatistics {
 public:
  /// Returns one JSON object; called on a separate thread.
  using Figures = std::function<std::string()>;

  struct Options {
    std::string folder = "/dev/shm";
    std::chrono::milliseconds period{250};
  };

  /// Starts publishing. Everything that `figures` uses must outlive the object. Never null. Any
  /// thread.
  static std::unique_ptr<LiveStatistics> start(Figures figures, const Options& options);

  /// Ends the thread and removes the file.
  ~LiveStatistics();
  LiveStatistics(const LiveStatistics&) = delete;
  LiveStatistics& operator=(const LiveStatistics&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  LiveStatistics(Figures figures, const Options& options);
  void work() EDGEPIPE_EXCLUDES(mutex_);
  void publish() const;

  Figures figures_;
  Options options_;
  std::string path_;
  std::string head_;  // of the JSON object, up to the time
  Mutex mutex_;
  CondVar stopping_;
  bool stop_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  std::optional<Thread> thread_;  // destroyed first
};

}  // namespace edgepipe
