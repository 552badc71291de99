#include "base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/console.h"

namespace edgepipe {
namespace {

constexpr std::chrono::seconds kStatusInterval{1};
constexpr const char* kRemedy = "start it as a unit of systemd, or unset NOTIFY_SOCKET";

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace

ServiceManager::Options ServiceManager::from_environment() {
  Options options;
  if (const char* socket = std::getenv("NOTIFY_SOCKET")) options.socket = socket;
  // The watchdog is meant for another process, such as a shell that started this one.
  const std::optional<std::uint64_t> process = number_in("WATCHDOG_PID");
  if (process && *process != static_cast<std::uint64_t>(::getpid())) return options;
  options.watchdog = std::chrono::microseconds(number_in("WATCHDOG_USEC").value_or(0));
  return options;
}

Result<ServiceManager> ServiceManager::connect(const Options& options) {
  if (options.socket.empty()) return ServiceManager(FileDescriptor(), options.watchdog);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool abstract = options.socket.front() == '@';
  if ((!abstract && options.socket.front() != '/') || options.socket.size() < 2 ||
      options.socket.size() >= sizeof(address.sun_path)) {
    return Status(
        Code::kInvalidArgument,
        "NOTIFY_SOCKET: found '" + options.socket + "', expected the path or @NAME of a socket",
        kRemedy);
  }
  std::memcpy(address.sun_path, options.socket.data(), options.socket.size());
  if (abstract) address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                            options.socket.size() + (abstract ? 0 : 1));
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return Status(Code::kInvalidArgument,
                  "NOTIFY_SOCKET: " + options.socket + ": " + std::strerror(errno), kRemedy);
  }
  return ServiceManager(std::move(socket), options.watchdog);
}

void ServiceManager::ready(std::string_view status) {
  send("READY=1\nSTATUS=" + printable(status));
  fed_ = told_ = Clock::now();
}

void ServiceManager::alive(std::uint64_t steps, const std::function<std::string()>& status) {
  if (!socket_.valid()) return;
  const Clock::time_point now = Clock::now();
  if (watchdog_.count() > 0 && now - fed_ >= watchdog_ / 4 && steps != steps_) {
    send("WATCHDOG=1");
    fed_ = now;
    steps_ = steps;
  }
  if (now - told_ >= kStatusInterval) {
    send("STATUS=" + printable(status()));
    told_ = now;
  }
}

void ServiceManager::stopping() { send("STOPPING=1"); }

void ServiceManager::send(std::string_view text) const {
  if (!socket_.valid()) return;
  // A manager that does not read must not delay frames; it will get the next message.
  static_cast<void>(
      !::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace edgepipe
