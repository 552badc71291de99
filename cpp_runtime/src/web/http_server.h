// HttpServer: a small HTTP/1.1 server for a page with a few viewers.
//
//   Result<std::unique_ptr<HttpServer>> server = HttpServer::start(
//       {.address = "127.0.0.1", .port = 8080},
//       [](const std::string& path, HttpReply& reply) { reply.send(200, "text/plain", bytes); });
//
// GET only, one request per connection, every wait bounded. It supports neither TLS nor users. By
// default it listens on the local machine only, where it also refuses requests for foreign host
// names (DNS rebinding). Debian's cpp-httplib and libmicrohttpd would be additional libraries on
// the board; this server is part of the program.
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

/// The answer to one request; used by the handler during its call.
class HttpReply {
 public:
  HttpReply(int socket, const std::atomic<bool>& ending) : socket_(socket), ending_(ending) {}

  /// Sends a complete answer. Blocks for at most ten seconds; false if the reader is gone.
  bool send(int code, std::string_view type, std::span<const std::byte> body);
  bool send(int code, std::string_view type, std::string_view body);

  /// Sends the head of an endless answer, then its pieces. False if the reader is gone or the
  /// server ends; the handler must then return.
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
    int connections = 12;               // concurrent, one thread each
  };

  /// Answers GET of `path` (without a query). Called on several threads at a time.
  using Handler = std::function<void(const std::string& path, HttpReply& reply)>;

  /// kInvalidArgument for an invalid address, kNotFound if it cannot be bound.
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
