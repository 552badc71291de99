// Socket: a connected TCP socket whose reads and writes end at a deadline, or when the program
// stops.
//
//   Result<Socket> tracker = Socket::connect("127.0.0.1", 9190, 10s, {stop_pipe});
//   tracker->allow(10s);                                  // for all of the following calls
//   Status status = tracker->write_int(kMagic);
//   Result<std::string> answer = tracker->read_text(4096);
//
// The format of TVM's RPC handshakes: 32-bit little-endian integers; a string is its length and
// its bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe::rpc {

class Socket {
 public:
  /// The functions below wait for the peer for at most `patience` in total, however slowly it
  /// sends. They stop waiting when one of `stop_on` (borrowed descriptors) becomes readable.
  Socket(FileDescriptor descriptor, std::chrono::milliseconds patience,
         std::vector<int> stop_on = {});

  /// Connects to `host`, a name or an address. kNotFound if nobody answers. Looking up a name may
  /// take longer than `patience`.
  static Result<Socket> connect(const std::string& host, std::uint16_t port,
                                std::chrono::milliseconds patience,
                                const std::vector<int>& stop_on = {});

  /// Restarts the time: the following calls have `patience` in total.
  void allow(std::chrono::milliseconds patience) { end_ = Clock::now() + patience; }

  /// kDeadline if the peer does not answer in time, kClosed if it has closed the connection or the
  /// program stops.
  Result<std::int32_t> read_int();
  Status write_int(std::int32_t value);

  /// A text longer than `most_bytes` is kCorrupt.
  Result<std::string> read_text(std::size_t most_bytes);
  Status write_text(std::string_view text);

  /// Ends this side's half of the connection and drops what the peer still sends, until it closes
  /// its half, for at most `patience`. Closing a socket that has unread data would reset the
  /// connection, and the peer could lose what was sent to it last.
  void finish(std::chrono::milliseconds patience);

  [[nodiscard]] int number() const { return descriptor_.number(); }

 private:
  using Clock = std::chrono::steady_clock;

  Status wait(short events, const char* what);
  Status read_all(void* data, std::size_t bytes);
  Status write_all(const void* data, std::size_t bytes);

  FileDescriptor descriptor_;
  Clock::time_point end_;
  std::vector<int> stop_on_;
};

/// Listens on 127.0.0.1 only. Port 0: any free port. kDevice if the port is in use.
Result<FileDescriptor> listen_on_loopback(std::uint16_t port);

/// The port that a listening socket has.
Result<std::uint16_t> port_of(const FileDescriptor& listener);

/// Sets how long a blocking read or write on `descriptor` waits before it fails.
Status set_patience(int descriptor, std::chrono::milliseconds patience);

}  // namespace edgepipe::rpc
