// greet: the handshake that begins a session of TVM's RPC protocol, on the server's side.
//
//   Result<SessionLimit> limit = greet(socket, {.client = key, .server = key});
//   if (!limit.ok()) refuse the client;
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "edgepipe/status.h"
#include "socket.h"

namespace edgepipe::rpc {

/// The time that a client allows its session; none: any.
using SessionLimit = std::optional<std::chrono::milliseconds>;

struct GreetingKeys {
  std::string client;  // that the client must send
  std::string server;  // that it gets back
};

/// Reads the client's greeting and answers it. Waits as long as the socket's patience, in all.
/// kCorrupt for another protocol, kInvalidArgument for another key.
Result<SessionLimit> greet(Socket& socket, const GreetingKeys& keys);

}  // namespace edgepipe::rpc
