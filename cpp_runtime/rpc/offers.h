// Offers: the sessions that a server offers through TVM's tracker, one at a time, and the keys of
// the clients that the tracker sent to it.
//
//   Offers offers(options, log);
//   offers.keep();                      // every few seconds, and before the server waits
//   if (offers.take(key)) serve the client that sent this key, which is then used up;
//
// A client may come long after the tracker gave it a key: on a busy machine, or because it waits
// until the session of another one has ended. Its key stays good until it is used, also when the
// server has offered itself again or has lost the tracker. So no client that the tracker sent is
// refused, unless kMostKeys others were sent after it and never came.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tracker.h"

namespace edgepipe::rpc {

class Offers {
 public:
  using Log = std::function<void(const std::string&)>;

  static constexpr std::chrono::milliseconds kPeriod{2'000};  // between questions to the tracker
  /// For a client to connect after the tracker has sent it here; then others are invited as well.
  static constexpr std::chrono::milliseconds kUnclaimed{8'000};
  static constexpr std::size_t kMostKeys = 16;

  Offers(Tracker::Options options, Log log);

  /// Connects to the tracker, offers a session if none is, and offers another one if a client does
  /// not come. Waits for the tracker's answers. If it does not answer, logs that once; the next
  /// call tries again.
  void keep();

  /// Whether a client has this key. A key is used up by this. If it is not that of the last offer,
  /// the last offer is withdrawn, so that no client is sent to a server that is busy.
  bool take(std::string_view key);

  /// Leaves the connection to the parent process, in a child.
  void leave() { tracker_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;

  Status ask();
  Status offer();

  Tracker::Options options_;
  Log log_;
  std::optional<Tracker> tracker_;
  std::string error_;             // the last one that was logged
  std::deque<std::string> keys_;  // not used yet, the newest last
  bool offered_ = false;          // keys_.back() is offered, or a client was sent with it
  Clock::time_point asked_{};
  std::optional<Clock::time_point> claimed_;  // when a client was first seen to be sent here
};

}  // namespace edgepipe::rpc
