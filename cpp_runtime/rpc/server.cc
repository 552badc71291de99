#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/open_failure.h"
#include "base/out_of_memory.h"
#include "base/secret.h"
#include "session_process.h"

namespace edgepipe::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGreetingPatience{5'000};  // in all
constexpr milliseconds kPause{100};  // while there is no memory or descriptor for a client

// For a session to end by itself after its client is gone, and for a client to read its last error.
constexpr milliseconds kGrace{2'000};

/// The time until `end` for poll(), rounded up; -1 (no limit) if there is no end.
int wait_ms(const std::optional<Clock::time_point>& end) {
  if (!end) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*end - Clock::now()).count();
  return left > 0 ? static_cast<int>(std::min<std::int64_t>(left, 1 << 30)) : 0;
}

/// A session's folder and process, which are gone after this object.
class Session {
 public:
  explicit Session(const std::filesystem::path& parent)
      : folder_((parent / "edgepipe-rpc-XXXXXX").string()) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  ~Session() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      wait();
    }
    if (!has_folder_) return;
    for (int tries = 0; tries < kMostRemovals && !remove_folder(); ++tries) continue;
  }

  [[nodiscard]] const std::string& folder() const { return folder_; }

  Status make_folder() {
    has_folder_ = ::mkdtemp(folder_.data()) != nullptr;
    if (has_folder_) return {};
    return Status(Code::kDevice, folder_ + ": cannot be created: " + std::strerror(errno),
                  "choose another folder, or free some space");
  }

  void has(pid_t process) { process_ = process; }

  /// Waits for the end of the process; its status as from waitpid().
  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    process_ = 0;
    return status;
  }

 private:
  static constexpr int kMostRemovals = 3;  // while there is no memory for them

  /// False if there is no memory for it.
  bool remove_folder() {
    return or_out_of_memory([this] {
             std::error_code error;
             std::filesystem::remove_all(folder_, error);
             return error == std::errc::not_enough_memory ? out_of_memory() : Status();
           })
        .ok();
  }

  std::string folder_;
  bool has_folder_ = false;
  pid_t process_ = 0;
};

}  // namespace

Server::Server(Options options, FileDescriptor listener, std::uint16_t port)
    : options_(std::move(options)), listener_(std::move(listener)), port_(port) {
  waits_.push_back({listener_.number(), POLLIN, 0});
  for (const int descriptor : options_.stop_on) waits_.push_back({descriptor, POLLIN, 0});
  if (options_.tracker) offers_.emplace(*options_.tracker, options_.log);
}

Result<std::unique_ptr<Server>> Server::create(Options options) {
  Result<FileDescriptor> listener = listen_on_loopback(options.port);
  if (!listener.ok()) return listener.status();
  Result<std::uint16_t> port = port_of(*listener);
  if (!port.ok()) return port.status();
  if (options.tracker) {
    options.tracker->key = options.key;
    options.tracker->stop_on = options.stop_on;
    if (options.tracker->advertised_port == 0) options.tracker->advertised_port = *port;
  }
  return std::unique_ptr<Server>(new Server(std::move(options), std::move(*listener), *port));
}

bool Server::stopped(milliseconds patience) {
  return ::poll(waits_.data() + 1, waits_.size() - 1, static_cast<int>(patience.count())) > 0;
}

Status Server::run() {
  Status before;
  while (!stopped(milliseconds(0))) {
    Status status = or_out_of_memory([this] { return serve_next(); });
    // A waiting client would wake the loop again at once.
    if (status.code() == Code::kOutOfMemory) {
      if (status.message() != before.message()) report(status);
      static_cast<void>(stopped(kPause));
    } else if (!status.ok()) {
      return status;
    }
    before = std::move(status);
  }
  return {};
}

/// Waits for a client and serves it. kOutOfMemory if there is no memory or descriptor for it, now.
Status Server::serve_next() {
  Result<bool> waits = false;
  if (offers_) {
    // Who is here comes first: the next client must not be sent to a server that is about to be
    // busy.
    waits = client_waits(milliseconds(0));
    if (!waits.ok()) return waits.status();
    if (!*waits) offers_->keep();
  }
  if (!*waits) waits = client_waits(offers_ ? Offers::kPeriod : milliseconds(-1));
  if (!waits.ok()) return waits.status();
  if (!*waits) return {};
  FileDescriptor peer(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer.valid()) {
    const bool gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    return gone ? Status() : open_failure(Code::kOutOfMemory, "a client waits", errno);
  }
  Socket socket(std::move(peer), kGreetingPatience, options_.stop_on);
  Result<SessionLimit> limit = greet(
      socket,
      {.is_good = [this](std::string_view key) { return has_key(key); }, .server = options_.key});
  if (!limit.ok()) {
    options_.log("client refused: " + limit.status().message());
    return {};
  }
  Client client{.socket = std::move(socket), .limit = *limit};
  Status status = serve(client);
  if (status.code() == Code::kOutOfMemory) return_error(client.socket.number(), status.message());
  return status;
}

/// Whether a client waits, within `patience`; a negative one has no limit.
Result<bool> Server::client_waits(milliseconds patience) {
  if (::poll(waits_.data(), waits_.size(), static_cast<int>(patience.count())) < 0) {
    if (errno == EINTR) return false;
    return Status(Code::kInternal, std::string("poll: ") + std::strerror(errno));
  }
  return (waits_[0].revents & POLLIN) != 0;
}

bool Server::has_key(std::string_view key) {
  return offers_ ? offers_->take(key) : equal_secrets(key, options_.key);
}

/// Logs an error that the server survives and its hint, if there is memory for it.
void Server::report(const Status& status) const {
  static_cast<void>(or_out_of_memory([&] {
    options_.log(status.message());
    if (!status.hint().empty()) options_.log("hint: " + status.hint());
    return Status();
  }));
}

Status Server::serve(Client& client) {
  int pipe_ends[2] = {-1, -1};
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return open_failure(Code::kOutOfMemory, "pipe", errno);
  FileDescriptor ended(pipe_ends[0]);  // closed when the session's process ends
  FileDescriptor alive(pipe_ends[1]);
  Session session(options_.folder);
  if (Status status = session.make_folder(); !status.ok()) return status;
  const pid_t server = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return {Code::kOutOfMemory, std::string("fork: ") + std::strerror(errno)};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != server) ::_exit(1);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGALRM, SIG_DFL);
    ::signal(SIGINT, SIG_DFL);
    listener_ = FileDescriptor();
    if (offers_) offers_->leave();
    ::_exit(serve_session(client.socket.number(), session.folder(), options_.idle) ? 0 : 1);
  }
  session.has(child);
  alive = FileDescriptor();
  options_.log("session " + std::to_string(child) + " begins");
  watch(child, ended.number(), client);
  const int status = session.wait();
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  options_.log("session " + std::to_string(child) + (clean ? " ended" : " ended with an error"));
  return {};
}

void Server::watch(pid_t child, int ended, Client& client) {
  std::optional<Clock::time_point> end;
  if (client.limit) end = Clock::now() + *client.limit;
  bool client_gone = false;
  for (;;) {
    // Watches the client's socket only for its end; the session's process reads the data.
    std::vector<pollfd> waits = {{ended, POLLIN, 0},
                                 {client_gone ? -1 : client.socket.number(), POLLRDHUP, 0}};
    for (const int descriptor : options_.stop_on) waits.push_back({descriptor, POLLIN, 0});
    const int ready = ::poll(waits.data(), waits.size(), wait_ms(end));
    if (ready < 0 && errno == EINTR) continue;
    if (waits[0].revents != 0) return;
    if (ready == 0) {
      ::kill(child, SIGKILL);
      if (client_gone) return;
      pollfd process = {ended, POLLIN, 0};  // it may be answering a call
      while (::poll(&process, 1, -1) < 0 && errno == EINTR) continue;
      return_error(client.socket.number(), "RPCSessionTimeoutError: the session's time limit of " +
                                               std::to_string(client.limit->count()) +
                                               " ms has passed");
      client.socket.finish(kGrace);
      return;
    }
    if (waits[1].revents != 0) {
      client_gone = true;
      end = Clock::now() + kGrace;
      continue;
    }
    ::kill(child, SIGKILL);  // the server was stopped
    return;
  }
}

}  // namespace edgepipe::rpc
