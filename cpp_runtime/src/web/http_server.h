// HttpServer: a small HTTP/1.1 server for a page with hundreds of readers.
//
//   class Page : public HttpContent { ... };
//   Result<PageAccess> access = PageAccess::create({.token = token});
//   Result<std::unique_ptr<HttpServer>> server =
//       HttpServer::start({.port = 8080, .readers = 100}, *std::move(access), page);
//   server->wake();  // there are new events
//
// One thread and epoll, however many readers there are. GET only. Every wait for a reader is
// bounded (HttpConnection::Patience): one that stops reading is closed, and one that is only slow
// skips events. The thread has a low priority and rests between rounds of events, so readers do not
// slow a pipeline. IPv4 without TLS: a reverse proxy can add both. ARCHITECTURE.md says why this is
// not a library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "edgepipe/status.h"
#include "web/http_connection.h"
#include "web/http_reply.h"
#include "web/page_access.h"

namespace edgepipe {

/// What a server serves. Called on the server's thread; must not block, as all readers wait.
class HttpContent {
 public:
  virtual ~HttpContent() = default;

  /// The answer to a GET of `path`, which has no query.
  virtual HttpReply answer(const std::string& path) = 0;

  /// The newest event of every topic; null: none yet. A reader gets each of them at most once, and
  /// a slow one only the newest. Called only while there are readers: after wake(), at most 60
  /// times a second, and at least 8 times a second.
  virtual const std::vector<SharedText>& newest_events() = 0;
};

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // IPv4; 0.0.0.0: every interface
    int port = 8080;                    // 0: any free one, see port()
    int readers = 100;                  // of streams, at the same time; more get 503
    HttpConnection::Patience patience = {};
  };

  /// Connections besides those of streams, at the same time.
  static constexpr int kOtherConnections = 256;

  /// Starts serving `content`, which must outlive the server. kInvalidArgument for an invalid
  /// address, or more readers than this process may have files open; kNotFound if the address
  /// cannot be bound.
  static Result<std::unique_ptr<HttpServer>> start(const Options& options, PageAccess access,
                                                   HttpContent& content);

  /// Closes all connections and joins.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Announces that `content` has new events. Cheap if there are no readers. Does not block; any
  /// thread.
  void wake();

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;

 private:
  struct Reader {
    HttpConnection connection;
    unsigned watched = 0;  // what epoll waits for; 0: not yet known to it
  };
  using Number = std::uint64_t;  // ascending, so the oldest connection is first
  using Readers = std::map<Number, Reader>;

  HttpServer(Options options, PageAccess access, HttpContent& content, FileDescriptor listener,
             int port);
  Status open();
  void serve();
  void serve_ready();
  [[nodiscard]] Clock::time_point next_round() const;
  [[nodiscard]] int wait_ms() const;
  void run_round(Clock::time_point now);
  void close_overdue(Clock::time_point now);
  void accept_all();
  bool accept_one();
  void pause_accepting();
  void resume_accepting();
  void watch_listener(unsigned events);
  bool make_room();
  void close(Readers::iterator reader);
  bool watch(Readers::value_type& entry);
  bool advance(Readers::value_type& entry);
  HttpReply reply_to(const HttpRequest& request);

  const Options options_;
  const PageAccess access_;
  HttpContent& content_;
  const FileDescriptor listener_;
  const int port_;
  FileDescriptor epoll_;
  FileDescriptor wake_;     // an eventfd
  FileDescriptor reserve_;  // closed to accept and close a connection when no other is free
  std::atomic<bool> ending_{false};
  std::atomic<bool> wanted_{false};  // the thread waits for new events

  // Only the server's thread uses these.
  Readers readers_;
  Number next_number_;
  int streams_ = 0;  // of the readers
  std::vector<SharedText> newest_;
  bool has_news_ = false;
  Clock::time_point next_news_{};  // the earliest round with news
  Clock::time_point last_round_{};
  Clock::time_point next_check_{};  // of overdue readers
  bool accepting_ = true;           // false: connections wait until next_accept_
  Clock::time_point next_accept_{};

  std::optional<Thread> thread_;  // destroyed first
};

}  // namespace edgepipe
