// A greeting of arbitrary bytes is refused, or begins with the key and sets a limit within bounds.
#include <sys/socket.h>

#include <cstdlib>
#include <string_view>

#include "../rpc/greeting.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace edgepipe;
  using namespace std::chrono_literals;
  if (bytes > 8192) return 0;  // more than a greeting can have; a socket takes that much at once
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const FileDescriptor client(ends[0]);
  rpc::Socket socket(FileDescriptor(ends[1]), 5s);
  if (::send(client.number(), data, bytes, 0) != static_cast<ssize_t>(bytes)) std::abort();
  ::shutdown(client.number(), SHUT_WR);
  const auto is_good = [](std::string_view key) { return key == "key"; };
  const Result<rpc::SessionLimit> limit =
      rpc::greet(socket, {.is_good = is_good, .server = "board"});
  // The end of the input is a closed connection, so nothing waits for more.
  if (limit.status().code() == Code::kDeadline) std::abort();
  if (!limit.ok()) return 0;
  const std::string_view sent(reinterpret_cast<const char*>(data), bytes);
  if (sent.find("client:key") == sent.npos) std::abort();
  if (*limit && (**limit < 0ms || **limit > 1'000'000s)) std::abort();
  return 0;
}
