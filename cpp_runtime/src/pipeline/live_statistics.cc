#include "pipeline/live_statistics.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/file_descriptor.h"
#include "base/out_of_memory.h"

namespace edgepipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kPrefix = "edgepipe-";
// A file that is newer may be published by a process in another PID namespace, which is unknown
// here.
constexpr std::chrono::seconds kPublished{10};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double uptime_s() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME,
                  &now);  // the clock of /proc/uptime, so readers can compute the age
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// Returns whether nobody has replaced the file for a while.
bool is_old(const std::filesystem::path& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  return !error && std::filesystem::file_time_type::clock::now() - written > kPublished;
}

/// Removes the files of processes that no longer exist.
void remove_orphans(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    pid_t pid = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, failure] = std::from_chars(name.data() + kPrefix.size(), end, pid);
    if (failure != std::errc() || rest == end || *rest != '-' || pid <= 0) continue;
    std::error_code ignored;
    const bool is_unknown = ::kill(pid, 0) != 0 && errno == ESRCH;
    if (is_unknown && is_old(entry.path())) std::filesystem::remove(entry.path(), ignored);
  }
}

double rounded(double value, double places) { return std::round(value * places) / places; }

/// null: not known.
Json share(const std::optional<double>& value) {
  return value ? Json(rounded(*value, 1e4)) : Json();
}

Json board_json(const BoardReading& board) {
  Json temperatures = Json::array();
  for (const Temperature& one : board.temperatures) {
    temperatures.push_back(
        {{"sensor", one.sensor}, {"type", one.type}, {"celsius", rounded(one.celsius, 1e2)}});
  }
  return {{"cores", board.cores},
          {"processor_load", share(board.processor_load)},
          {"program_load", share(board.program_load)},
          {"temperatures", std::move(temperatures)}};
}

}  // namespace

std::string live_figures(std::string_view network, std::string_view device,
                         const PipelineStatistics& statistics, const BoardReading& board) {
  return dump({{"network", network},
               {"device", device},
               {"pipeline", Json::parse(statistics.json())},
               {"board", board_json(board)}});
}

LiveStatistics::LiveStatistics(Figures figures, const Options& options)
    : figures_(std::move(figures)), options_(options) {
  static std::atomic<unsigned> made{0};  // one process may run several pipelines
  const std::string id = std::to_string(::getpid()) + "-" + std::to_string(made++);
  path_ = options_.folder + "/" + std::string(kPrefix) + id + ".json";
  head_ = dump({{"version", kVersion},
                {"id", id},
                {"pid", ::getpid()},
                {"program", program_invocation_short_name}});
  head_.pop_back();  // the object continues
}

std::unique_ptr<LiveStatistics> LiveStatistics::start(Figures figures, const Options& options) {
  std::unique_ptr<LiveStatistics> live(new LiveStatistics(std::move(figures), options));
  Result<Thread> thread =
      Thread::start({.name = "statistics", .cores = {}}, [raw = live.get()] { raw->work(); });
  if (thread.ok()) live->thread_.emplace(std::move(*thread));
  return live;
}

LiveStatistics::~LiveStatistics() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    stopping_.notify();
  }
  thread_.reset();
  ::unlink(path_.c_str());
}

void LiveStatistics::work() {
  static_cast<void>(or_out_of_memory([this] {
    remove_orphans(options_.folder);
    return Status();
  }));
  for (Clock::time_point due = Clock::now();; due = Clock::now() + options_.period) {
    MutexLock lock(mutex_);
    while (!stop_ && stopping_.wait_until(lock, due)) {
    }
    if (stop_) return;
    static_cast<void>(or_out_of_memory([this] {
      publish();
      return Status();
    }));
  }
}

/// Best effort: a failure to publish statistics does not end a run.
void LiveStatistics::publish() const {
  char time[48];
  std::snprintf(time, sizeof(time), ",\"uptime_s\":%.3f,\"live\":", uptime_s());
  const std::string text = head_ + time + figures_() + "}\n";
  const std::string partial = path_ + ".partial";
  ::unlink(partial.c_str());  // left by an earlier process with the same pid
  FileDescriptor file(
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) return;
  const bool written =
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(partial.c_str(), path_.c_str()) != 0) ::unlink(partial.c_str());
}

}  // namespace edgepipe
