// Socket: a connected TCP socket with a time limit for every read and write.
//
//   Result<Socket> tracker = Socket::connect("127.0.0.1", 9190, 10s);
//   Status status = tracker->write_int(kMagic);
//   Result<std::string> answer = tracker->read_text(4096);
//
// The format of TVM's RPC handshakes: 32-bit little-endian integers; a text is its length and
// bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe::rpc {

class Socket {
 public:
  /// Every function waits at most `patience` for the peer to send or receive data.
  Socket(FileDescriptor descriptor, std::chrono::milliseconds patience);

  /// Connects to `host`, a name or an address. kNotFound if nobody answers.
  static Result<Socket> connect(const std::string& host, std::uint16_t port,
                                std::chrono::milliseconds patience);

  /// kDeadline if the peer does not answer in time, kClosed if it has closed the connection.
  Result<std::int32_t> read_int();
  Status write_int(std::int32_t value);

  /// A longer text than `most_bytes` is kCorrupt.
  Result<std::string> read_text(std::size_t most_bytes);
  Status write_text(std::string_view text);

  [[nodiscard]] int number() const { return descriptor_.number(); }

 private:
  Status read_all(void* data, std::size_t bytes);
  Status write_all(const void* data, std::size_t bytes);

  FileDescriptor descriptor_;
};

/// Listens on 127.0.0.1 only. Port 0: any free port. kDevice if the port is in use.
Result<FileDescriptor> listen_on_loopback(std::uint16_t port);

/// The port that a listening socket has.
Result<std::uint16_t> port_of(const FileDescriptor& listener);

/// Sets how long a blocking read or write on `descriptor` waits before it fails.
Status set_patience(int descriptor, std::chrono::milliseconds patience);

}  // namespace edgepipe::rpc
