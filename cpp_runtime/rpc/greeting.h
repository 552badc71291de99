// greet: the handshake that begins a session of TVM's RPC protocol, on the server's side.
//
//   Result<SessionLimit> limit = greet(socket, {.is_good = has_key, .server = key});
//   if (!limit.ok()) refuse the client;
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "edgepipe/status.h"
#include "socket.h"

namespace edgepipe::rpc {

/// The time that a client allows its session; none: any.
using SessionLimit = std::optional<std::chrono::milliseconds>;

struct GreetingKeys {
  std::function<bool(std::string_view)> is_good;  // whether a client with this key is accepted;
                                                  // called once at most
  std::string server;                             // the key that the client gets back
};

/// Reads the client's greeting and answers it. Waits for the socket's patience in total.
/// kCorrupt for a different protocol, kInvalidArgument for a wrong key.
Result<SessionLimit> greet(Socket& socket, const GreetingKeys& keys);

}  // namespace edgepipe::rpc
