// ServiceManager: tells systemd that a service is ready and alive (sd_notify(3), without
// libsystemd).
//
//   Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
//   manager->ready("nanodet: 0 frames");
//   while (...) manager->alive(frames, [] { return "nanodet: 812 frames"; });
//
// Without a service manager, all functions do nothing. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe {

class ServiceManager {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string socket;  // a path, or @NAME in the abstract name space; empty: none
    std::chrono::microseconds watchdog{0};  // ends services that are silent for this long; 0: never
  };

  /// The values of systemd's NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static Options from_environment();

  /// kInvalidArgument for an invalid name, kNotFound if nobody listens there.
  static Result<ServiceManager> connect(const Options& options);

  /// Reports that the service is ready; units that wait for it start.
  void ready(std::string_view status);

  /// Reports progress; may be called as often as desired. The watchdog gets four messages per
  /// period, but none while `steps` is the same number as at the last one: a service that only
  /// waits is not alive. `status`, which returns one line, is called at most once a second.
  void alive(std::uint64_t steps, const std::function<std::string()>& status);

  /// Reports that the service is ending on request.
  void stopping();

 private:
  explicit ServiceManager(FileDescriptor socket, std::chrono::microseconds watchdog)
      : socket_(std::move(socket)), watchdog_(watchdog) {}

  void send(std::string_view text) const;

  FileDescriptor socket_;  // invalid: no manager
  std::chrono::microseconds watchdog_;
  Clock::time_point fed_{};             // when the watchdog was last notified
  std::optional<std::uint64_t> steps_;  // at that time
  Clock::time_point told_{};            // when the status was last sent
};

}  // namespace edgepipe
