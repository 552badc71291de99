// HttpServer: a small HTTP/1.1 server for a page that one or a few people look at.
//
//   Result<std::unique_ptr<HttpServer>> server = HttpServer::start(
//       {.address = "127.0.0.1", .port = 8080},
//       [](const std::string& path, HttpReply& reply) { reply.send(200, "text/plain", bytes); });
//
// GET only, one request a connection, every wait bounded. It does not know TLS or users: bound to
// the local machine unless told otherwise, where it also refuses requests that a foreign page makes
// under a name of its own (DNS rebinding). Debian's cpp-httplib and libmicrohttpd are libraries of
// the host; this runs on boards as part of one program.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// The answer to one request; belongs to the handler during its call.
class HttpReply {
 public:
  HttpReply(int socket, const std::atomic<bool>& ending) : socket_(socket), ending_(ending) {}

  /// A whole answer. Blocks at most ten seconds; false when the reader has gone.
  bool send(int code, std::string_view type, std::span<const std::byte> body);
  bool send(int code, std::string_view type, std::string_view body);

  /// The head of an answer without end, then its pieces. False when the reader has gone or the
  /// server ends: the handler then returns.
  bool start_stream(std::string_view type);
  bool write(std::string_view piece);

 private:
  bool write_all(std::string_view bytes);

  int socket_;
  const std::atomic<bool>& ending_;
};

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // IPv4; 0.0.0.0: every interface
    int port = 8080;                    // 0: any free one, see port()
    int connections = 12;               // at a time, a thread each
  };

  /// Answers GET of `path` (without a query). Called on several threads at a time.
  using Handler = std::function<void(const std::string& path, HttpReply& reply)>;

  /// kInvalidArgument for an address that is none, kNotFound when it cannot be bound.
  static Result<std::unique_ptr<HttpServer>> start(const Options& options, Handler handler);

  /// Stops answering and joins; streams end at their next write.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;

 private:
  HttpServer(FileDescriptor listener, std::string address, int port, Handler handler);
  void accept_connections();
  void answer(int socket);
  [[nodiscard]] bool host_allowed(std::string_view request) const;

  FileDescriptor listener_;
  std::string address_;
  int port_;
  Handler handler_;
  std::atomic<bool> ending_{false};
  std::deque<Thread> threads_;
};

}  // namespace edgepipe
