// Server: gives one client after another a session with TVM's RPC protocol, each in its own
// process.
//
//   Result<std::unique_ptr<Server>> server = Server::create(options);
//   Status ended = (*server)->run();   // until a stop descriptor becomes readable
//
// One session at a time, because a board has one accelerator; other clients wait. A session ends,
// and its process and files go, when its client closes or is lost, when the client asks nothing for
// too long, when its time is up, or with the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"
#include "socket.h"
#include "tracker.h"

namespace edgepipe::rpc {

class Server {
 public:
  struct Options {
    std::uint16_t port = 0;          // 0 takes a free one
    std::string key;                 // clients must say the same; with a tracker, what it serves
    std::filesystem::path folder;    // sessions get folders in this one
    std::vector<int> stop_on;        // borrowed; the server ends when one can be read, or hangs up
    std::chrono::seconds idle{600};  // how long a session may ask nothing
    std::optional<Tracker::Options> tracker;  // its key and, unless set, its port are the server's
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  /// Listens; nothing is served yet. kDevice when the port is taken.
  static Result<std::unique_ptr<Server>> create(Options options);

  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// Serves until stopped. Blocks. A tracker that does not answer is tried again and logged.
  Status run();

 private:
  struct Client {
    Socket socket;
    std::optional<std::chrono::milliseconds> limit;  // what the client set for its session
  };

  Server(Options options, FileDescriptor listener, std::uint16_t port);
  void keep_offer();
  Result<Client> greet(Socket socket);
  Status serve(Client client);
  void watch(pid_t child, int ended, const Client& client);
  [[nodiscard]] bool stopped() const;

  Options options_;
  FileDescriptor listener_;
  std::uint16_t port_;
  std::optional<Tracker> tracker_;
  std::string tracker_error_;
  int unclaimed_checks_ = 0;
};

}  // namespace edgepipe::rpc
