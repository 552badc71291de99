// BoardReadings: how hot and how busy this machine is, and how much of that is this program.
//
//   BoardReadings board;
//   const BoardReading now = board.read();  // for any thread, as often as you like
//
// The kernel is asked at most once a second; in between, the last answer is repeated. A share is
// one of the time since the answer before, so the first one comes a second after the first call.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/temperatures.h"
#include "edgepipe/sync.h"

namespace edgepipe {

struct BoardReading {
  std::vector<Temperature> temperatures;  // none: the kernel shows none
  unsigned cores = 0;                     // that are online
  // Shares of the time of all cores, from 0 to 1; none: not known (yet).
  std::optional<double> processor_load;  // of everything that runs
  std::optional<double> program_load;    // of this program
};

class BoardReadings {
 public:
  struct Options {
    std::filesystem::path system = "/sys";
    std::filesystem::path processor = "/proc/stat";
    std::chrono::milliseconds period{1000};
  };

  BoardReadings();
  explicit BoardReadings(Options options);

  /// Blocks while a slow sensor measures.
  BoardReading read() EDGEPIPE_EXCLUDES(mutex_);

 private:
  /// The kernel's counts of clock ticks of all cores.
  struct Ticks {
    std::uint64_t busy = 0;
    std::uint64_t all = 0;
  };
  [[nodiscard]] std::optional<Ticks> read_ticks() const;

  const Options options_;
  Mutex mutex_;
  BoardReading last_ EDGEPIPE_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> at_ EDGEPIPE_GUARDED_BY(mutex_);  // when it was read
  std::optional<Ticks> ticks_ EDGEPIPE_GUARDED_BY(mutex_);           // at that time
  double program_s_ EDGEPIPE_GUARDED_BY(mutex_) = 0;  // processor time of this program until then
};

}  // namespace edgepipe
