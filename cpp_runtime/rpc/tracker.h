// Tracker: a server's place in the queue of TVM's RPC tracker, which serves a farm of boards.
//
//   Result<Tracker> tracker = Tracker::connect(options);
//   Status status = tracker->offer();                // one client may now come, with match_key()
//   Result<bool> waiting = tracker->still_offered(); // false: a client was sent here
//
// The protocol is the one of python/tvm/rpc/tracker.py (TVM 0.27): JSON texts over one connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "edgepipe/status.h"
#include "socket.h"

namespace edgepipe::rpc {

class Tracker {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    std::string key;  // what clients ask the tracker for, e.g. "ultra96"
    // Where clients reach this server: its own port on the address that the tracker sees it come
    // from, unless a host is given, such as the near end of a tunnel.
    std::string advertised_host;
    std::uint16_t advertised_port = 0;
  };

  /// Connects and says who is there. kNotFound, kDeadline, kClosed or kCorrupt.
  static Result<Tracker> connect(Options options);

  /// Offers one session under a new match key.
  Status offer();

  /// Whether the offer still waits for a client.
  Result<bool> still_offered();

  /// What the client that gets the offer will say; empty before the first offer.
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
