#include "base/board_readings.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

namespace edgepipe {
namespace {

double program_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

}  // namespace

BoardReadings::BoardReadings() : BoardReadings(Options()) {}

BoardReadings::BoardReadings(Options options) : options_(std::move(options)) {}

/// The first line, "cpu" and then the times in user, nice, system, idle, iowait, irq, softirq and
/// steal (proc(5)); those of guests, which follow, are contained in user and nice.
std::optional<BoardReadings::Ticks> BoardReadings::read_ticks() const {
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  constexpr int kTimes = 8;
  std::ifstream file(options_.processor);
  std::string name;
  if (!(file >> name) || name != "cpu") return std::nullopt;
  Ticks ticks;
  for (int index = 0; index < kTimes; ++index) {
    std::uint64_t time = 0;
    if (!(file >> time)) return std::nullopt;
    ticks.all += time;
    if (index != kIdle && index != kIoWait) ticks.busy += time;
  }
  return ticks;
}

BoardReading BoardReadings::read() {
  MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (at_ && now - *at_ < options_.period) return last_;
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  last_.cores = cores > 0 ? static_cast<unsigned>(cores) : 0;
  last_.temperatures = read_temperatures(options_.system);
  const std::optional<Ticks> ticks = read_ticks();
  last_.processor_load.reset();
  // The kernel's count of iowait may go back, and a core's counts stop while it is offline.
  if (ticks && ticks_ && ticks->all > ticks_->all && ticks->busy >= ticks_->busy) {
    const auto busy = static_cast<double>(ticks->busy - ticks_->busy);
    last_.processor_load = std::min(1.0, busy / static_cast<double>(ticks->all - ticks_->all));
  }
  const double used_s = program_s();
  last_.program_load.reset();
  if (at_ && last_.cores > 0) {
    const double elapsed_s = std::chrono::duration<double>(now - *at_).count();
    last_.program_load = std::clamp((used_s - program_s_) / elapsed_s / last_.cores, 0.0, 1.0);
  }
  ticks_ = ticks;
  program_s_ = used_s;
  at_ = now;
  return last_;
}

}  // namespace edgepipe
