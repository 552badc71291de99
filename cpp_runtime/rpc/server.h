// Server: serves sessions of TVM's RPC protocol to one client after another, each in its own
// process.
//
//   Result<std::unique_ptr<Server>> server = Server::create(options);
//   Status ended = (*server)->run();   // until a stop descriptor becomes readable
//
// A client must send the key within 5 s in all. Until then, its bytes are only read as text.
//
// One session at a time, because a board has one accelerator; other clients wait, in the order in
// which they connected. While one waits, nothing is offered to a tracker. A session ends,
// and its process and files are removed, when its client disconnects, is idle for too long or
// exceeds its time limit, or when the server ends.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"
#include "greeting.h"
#include "offers.h"
#include "socket.h"
#include "tracker.h"

namespace edgepipe::rpc {

class Server {
 public:
  struct Options {
    std::uint16_t port = 0;  // 0: any free port
    std::string key;  // clients must send the same; with a tracker, the key offered there, and each
                      // client gets a random one from the tracker
    std::filesystem::path folder;  // parent of the sessions' folders
    std::vector<int> stop_on;      // borrowed; the server ends when one becomes readable or closed
    std::chrono::seconds idle{600};  // how long a session may be idle
    std::optional<Tracker::Options>
        tracker;  // its key and, unless set, its port come from the server
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  /// Listens, but does not serve yet. kDevice if the port is in use.
  static Result<std::unique_ptr<Server>> create(Options options);

  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// Serves until stopped. Blocks. If a tracker does not answer, logs it and retries.
  Status run();

 private:
  struct Client {
    Socket socket;
    SessionLimit limit;
  };

  Server(Options options, FileDescriptor listener, std::uint16_t port);
  Status serve_next();
  Result<bool> client_waits(std::chrono::milliseconds patience);
  bool has_key(std::string_view key);
  Status serve(Client& client);
  void watch(pid_t child, int ended, Client& client);
  void report(const Status& status) const;
  [[nodiscard]] bool stopped(std::chrono::milliseconds patience);

  Options options_;
  FileDescriptor listener_;
  std::uint16_t port_;
  std::vector<pollfd> waits_;     // the listener, then stop_on
  std::optional<Offers> offers_;  // with a tracker
};

}  // namespace edgepipe::rpc
