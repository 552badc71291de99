// LiveStatistics: a running pipeline's figures for other processes, such as `edgepipe top`.
//
//   const std::unique_ptr<LiveStatistics> live = LiveStatistics::start(
//       [&] { return live_figures(network, device, pipeline.statistics()); }, {});
//
// Four times a second a file /dev/shm/edgepipe-PID-N.json is replaced by a newer one, so a reader
// always finds a whole JSON object (docs/guides/statistics.md) and needs no lock:
//
//   {"version": 1, "id": "4711-0", "pid": 4711, "program": "edgepipe-run", "uptime_s": 83.2,
//    "live": {...}}
//
// The file goes when the object does; one left behind by a process that was killed is removed by
// the next that starts. A machine without such a folder has no live statistics: no error.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/sync.h"

namespace edgepipe {

/// One JSON object: network, what runs its VTA stages, and the pipeline's statistics.
std::string live_figures(std::string_view network, std::string_view device,
                         const PipelineStatistics& statistics);

class LiveStatistics {
 public:
  /// Gives one JSON object; called on a thread of its own.
  using Figures = std::function<std::string()>;

  struct Options {
    std::string folder = "/dev/shm";
    std::chrono::milliseconds period{250};
  };

  /// Starts to publish; what `figures` uses outlives the object. Never null. Any thread.
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
  std::string head_;  // of the object, up to the time
  Mutex mutex_;
  CondVar stopping_;
  bool stop_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  std::optional<Thread> thread_;  // ends first
};

}  // namespace edgepipe
