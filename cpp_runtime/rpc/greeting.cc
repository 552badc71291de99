#include "greeting.h"

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>

namespace edgepipe::rpc {
namespace {

using std::chrono::milliseconds;

// The handshake of python/tvm/rpc/base.py and src/runtime/rpc/rpc_socket_impl.cc (TVM 0.27).
constexpr std::int32_t kMagic = 0xFF271;
constexpr std::int32_t kMismatch = kMagic + 2;
constexpr std::size_t kMostKeyBytes = 4096;
constexpr std::string_view kClient = "client:";  // before its key

/// The "-timeout=SECONDS" among the words that follow a client's key.
SessionLimit session_limit(std::istringstream& words) {
  constexpr std::string_view kName = "-timeout=";
  SessionLimit limit;
  for (std::string word; words >> word;) {
    if (!word.starts_with(kName)) continue;
    double seconds = 0;
    std::from_chars(word.data() + kName.size(), word.data() + word.size(), seconds);
    if (seconds > 0 && seconds < 1e6) {
      limit = milliseconds(static_cast<std::int64_t>(seconds * 1000));
    }
  }
  return limit;
}

}  // namespace

Result<SessionLimit> greet(Socket& socket, const GreetingKeys& keys) {
  Result<std::int32_t> magic = socket.read_int();
  if (!magic.ok()) return magic.status();
  if (*magic != kMagic) return Status(Code::kCorrupt, "not a TVM RPC client");
  Result<std::string> text = socket.read_text(kMostKeyBytes);
  if (!text.ok()) return text.status();
  std::istringstream words(*text);
  std::string key;
  words >> key;
  if (!key.starts_with(kClient) || !keys.is_good(std::string_view(key).substr(kClient.size()))) {
    // A client without the key is refused even if it cannot be told so.
    static_cast<void>(socket.write_int(kMismatch).ok());
    return Status(Code::kInvalidArgument, "wrong key");
  }
  Status status = socket.write_int(kMagic);
  if (status.ok()) status = socket.write_text("server:" + keys.server);
  if (!status.ok()) return status;
  return session_limit(words);
}

}  // namespace edgepipe::rpc
