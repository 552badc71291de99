// Tracker: a server's registration with TVM's RPC tracker, which serves a farm of boards.
//
//   Result<Tracker> tracker = Tracker::connect(options);
//   Status status = tracker->offer();  // one client may now connect, with match_key()
//   Result<bool> waiting = tracker->still_offered();  // false: a client was sent here
//
// The protocol is that of python/tvm/rpc/tracker.py (TVM 0.27): JSON texts over one connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "edgepipe/status.h"
#include "socket.h"

namespace edgepipe::rpc {

class Tracker {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    std::string key;  // that clients request from the tracker, e.g. "ultra96"
    // Where clients reach this server: its port at the address that the tracker sees, unless a host
    // is given, such as the near end of a tunnel.
    std::string advertised_host;
    std::uint16_t advertised_port = 0;
    std::vector<int> stop_on;  // borrowed; waiting for the tracker ends when one becomes readable
  };

  /// Connects and registers this server. kNotFound, kDeadline, kClosed or kCorrupt.
  static Result<Tracker> connect(Options options);

  /// Offers one session under a new match key.
  Status offer();

  /// Whether the offer is still waiting for a client.
  Result<bool> still_offered();

  /// The key that the assigned client will send; empty before the first offer.
  [[nodiscard]] const std::string& match_key() const { return match_key_; }

 private:
  Tracker(Options options, Socket socket)
      : options_(std::move(options)), socket_(std::move(socket)) {}
  Result<std::string> ask(const std::string& message);
  Status tell(const std::string& message);

  Options options_;
  Socket socket_;
  std::string match_key_;
};

}  // namespace edgepipe::rpc
