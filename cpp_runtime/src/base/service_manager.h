// ServiceManager: tells systemd that a service is ready and alive (sd_notify(3), without
// libsystemd).
//
//   Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
//   manager->ready("nanodet: 0 frames");
//   while (...) manager->alive([] { return "nanodet: 812 frames"; });
//
// Started by hand, without a manager, everything here does nothing. Not thread-safe.
#pragma once

#include <chrono>
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
    std::chrono::microseconds watchdog{0};  // ends services that are silent for so long; 0: never
  };

  /// What systemd says in NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static Options from_environment();

  /// kInvalidArgument for a name that is none, kNotFound when nobody listens there.
  static Result<ServiceManager> connect(const Options& options);

  /// The service works now; units that wait for it start.
  void ready(std::string_view status);

  /// To be called while the service makes progress, as often as it likes: the watchdog hears of it
  /// four times in its period, and `status`, one line, is asked for at most once a second.
  void alive(const std::function<std::string()>& status);

  /// The service is about to end, as it was asked to.
  void stopping();

 private:
  explicit ServiceManager(FileDescriptor socket, std::chrono::microseconds watchdog)
      : socket_(std::move(socket)), watchdog_(watchdog) {}

  void send(std::string_view text) const;

  FileDescriptor socket_;  // not valid: there is no manager
  std::chrono::microseconds watchdog_;
  Clock::time_point fed_{};   // when the watchdog last heard
  Clock::time_point told_{};  // when the status was last sent
};

}  // namespace edgepipe
