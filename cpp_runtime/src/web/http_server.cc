#include "web/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/open_failure.h"
#include "web/http_request.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRound{16};       // least time between two rounds of events
constexpr int kRest = 3;                 // times the length of a round, before the next one
constexpr milliseconds kIdleRound{125};  // most time between two rounds
constexpr milliseconds kCheck{100};      // between two looks for overdue readers
constexpr int kNiceness = 10;            // gives way to the pipeline
constexpr int kSendBufferBytes = 65536;  // a reader that stops is noticed soon
constexpr int kReservedFiles = 64;       // for the rest of the program

constexpr unsigned kReadable = EPOLLIN;
constexpr unsigned kWritable = EPOLLOUT;

// epoll's data for file descriptors that are not connections.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kWake = 1;
constexpr std::uint64_t kFirstConnection = 2;

int open_reserve() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

std::string system_text() { return std::generic_category().message(errno); }

/// Checks that there are descriptors for all connections.
Status check_open_files(int readers) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed =
      static_cast<rlim_t>(readers) + HttpServer::kOtherConnections + kReservedFiles;
  if (limit.rlim_cur >= needed) return {};
  return {Code::kInvalidArgument,
          std::to_string(readers) + " readers of the page need " + std::to_string(needed) +
              " open files, but this process may have " + std::to_string(limit.rlim_cur),
          "allow fewer readers, or raise the limit of open files (ulimit -n, or LimitNOFILE= in a "
          "systemd unit)"};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Options& options, PageAccess access,
                                                      HttpContent& content) {
  const std::string name = options.address + ":" + std::to_string(options.port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(options.port));
  if (::inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1) {
    return Status(Code::kInvalidArgument, name + ": expected an IPv4 address and a port");
  }
  if (Status status = check_open_files(options.readers); !status.ok()) return status;
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return open_failure(Code::kNotFound, name + ": cannot be bound", errno);
  const int yes = 1;
  ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // Accepted sockets inherit both.
  ::setsockopt(listener.number(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
               sizeof(kSendBufferBytes));
  ::setsockopt(listener.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.number(), generic, bytes) != 0 ||
      ::listen(listener.number(), SOMAXCONN) != 0 ||
      ::getsockname(listener.number(), generic, &bytes) != 0) {
    return Status(Code::kNotFound, name + ": cannot be bound: " + system_text(),
                  "choose another port, or stop the program that uses it");
  }
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(access), content,
                                                    std::move(listener), ntohs(address.sin_port)));
  if (Status status = server->open(); !status.ok()) return status.with_context(name);
  return server;
}

HttpServer::HttpServer(Options options, PageAccess access, HttpContent& content,
                       FileDescriptor listener, int port)
    : options_(std::move(options)),
      access_(std::move(access)),
      content_(content),
      listener_(std::move(listener)),
      port_(port),
      next_number_(kFirstConnection) {}

Status HttpServer::open() {
  const auto opens = [](FileDescriptor& file, int number) {
    file = FileDescriptor(number);
    return file.valid();
  };
  const auto watches = [this](const FileDescriptor& file, Number number) {
    epoll_event event{};
    event.events = kReadable;
    event.data.u64 = number;
    return ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, file.number(), &event) == 0;
  };
  if (!opens(epoll_, ::epoll_create1(EPOLL_CLOEXEC)) ||
      !opens(wake_, ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) || !opens(reserve_, open_reserve()) ||
      !watches(listener_, kListener) || !watches(wake_, kWake)) {
    return open_failure(Code::kOutOfMemory, "cannot wait for readers", errno);
  }
  Result<Thread> thread = Thread::start({.name = "http", .cores = {}}, [this] { serve(); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return {};
}

HttpServer::~HttpServer() {
  ending_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.number(), &one, sizeof(one)));  // full: it will wake up anyway
}

std::string HttpServer::url() const {
  return "http://" + options_.address + ":" + std::to_string(port_) + "/";
}

void HttpServer::wake() {
  if (!wanted_.load(std::memory_order_relaxed) || !wanted_.exchange(false)) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.number(), &one, sizeof(one)));
}

// ---- the loop

void HttpServer::serve() {
  // On Linux, this is the niceness of the calling thread only.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceness));
  while (!ending_) {
    try {
      serve_ready();
      const Clock::time_point now = Clock::now();
      if (streams_ > 0 && now >= next_round()) run_round(now);
      if (now >= next_check_) close_overdue(now);
      if (!accepting_ && now >= next_accept_) resume_accepting();
    } catch (const std::bad_alloc&) {
      readers_.clear();  // they come back; the pipeline continues
      streams_ = 0;
    }
  }
}

Clock::time_point HttpServer::next_round() const {
  return has_news_ ? next_news_ : last_round_ + kIdleRound;
}

int HttpServer::wait_ms() const {
  if (readers_.empty() && accepting_) return 10000;
  Clock::time_point until = accepting_ ? next_check_ : std::min(next_check_, next_accept_);
  if (streams_ > 0) until = std::min(until, next_round());
  const Clock::duration left = until - Clock::now();
  return left <= Clock::duration::zero()
             ? 0
             : static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
}

void HttpServer::serve_ready() {
  epoll_event ready[64];
  const int count = ::epoll_wait(epoll_.number(), ready, std::size(ready), wait_ms());
  for (int index = 0; index < count; ++index) {
    const Number number = ready[index].data.u64;
    if (number == kListener) {
      accept_all();
    } else if (number == kWake) {
      std::uint64_t times = 0;
      static_cast<void>(!::read(wake_.number(), &times, sizeof(times)));
      has_news_ = true;
    } else if (const auto found = readers_.find(number); found != readers_.end()) {
      const bool has_input = (ready[index].events & ~kWritable) != 0;
      if ((has_input && !found->second.connection.receive()) || !advance(*found)) close(found);
    }
  }
}

/// Offers the newest events to every stream.
void HttpServer::run_round(Clock::time_point now) {
  has_news_ = false;
  wanted_ = true;  // before the events are read, so that no later one is missed
  newest_ = content_.newest_events();
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    const auto current = reader++;
    if (current->second.connection.is_stream() && !advance(*current)) close(current);
  }
  const Clock::time_point end = Clock::now();
  last_round_ = now;
  next_news_ = end + std::max<Clock::duration>(kRound, kRest * (end - now));
}

void HttpServer::close_overdue(Clock::time_point now) {
  next_check_ = now + kCheck;
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    const auto current = reader++;
    if (!current->second.connection.is_overdue(now)) continue;
    current->second.connection.discard_output();
    close(current);
  }
}

// ---- connections

void HttpServer::accept_all() {
  constexpr int kAtOnce = 64;  // connected readers are served in between
  for (int count = 0; count < kAtOnce && accept_one(); ++count) {
  }
}

/// False if no connection waits.
bool HttpServer::accept_one() {
  constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  FileDescriptor socket(::accept4(listener_.number(), nullptr, nullptr, kFlags));
  if (!socket.valid() && is_too_many_files(errno)) {
    // A connection that stays in the queue would wake the loop again at once.
    reserve_ = FileDescriptor();
    socket = FileDescriptor(::accept4(listener_.number(), nullptr, nullptr, kFlags));
    const bool found = socket.valid();
    const bool none_waits = !found && errno == EAGAIN;
    socket = FileDescriptor();
    reserve_ = FileDescriptor(open_reserve());
    // Another thread may have taken the reserved descriptor, and the limit may have been lowered.
    if (!reserve_.valid() || !(found || none_waits)) pause_accepting();
    return found && accepting_;
  }
  if (!socket.valid() && (errno == EINTR || errno == ECONNABORTED)) return true;
  if (!socket.valid()) {
    if (errno != EAGAIN) pause_accepting();  // without memory for the connection, for example
    return false;
  }
  if (!make_room()) return true;
  const Readers::iterator reader =
      readers_
          .emplace(next_number_++,
                   Reader{.connection = HttpConnection(std::move(socket), options_.patience)})
          .first;
  // Usually the request has already arrived.
  if (!reader->second.connection.receive() || !advance(*reader)) close(reader);
  return true;
}

/// Leaves new connections in the queue for a moment, without polling it.
void HttpServer::pause_accepting() {
  accepting_ = false;
  next_accept_ = Clock::now() + kCheck;
  watch_listener(0);
}

void HttpServer::resume_accepting() {
  accepting_ = true;
  if (!reserve_.valid()) reserve_ = FileDescriptor(open_reserve());
  watch_listener(kReadable);
}

void HttpServer::watch_listener(unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = kListener;
  static_cast<void>(::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, listener_.number(), &event));
}

/// Makes room for a connection, if necessary by closing the oldest one without a whole request. So
/// clients that send their requests slowly cannot keep readers out.
bool HttpServer::make_room() {
  if (static_cast<int>(readers_.size()) - streams_ < kOtherConnections) return true;
  const auto oldest = std::ranges::find_if(
      readers_, [](const auto& entry) { return entry.second.connection.is_waiting(); });
  if (oldest == readers_.end()) return false;
  close(oldest);
  return true;
}

void HttpServer::close(Readers::iterator reader) {
  // What the last reader was offered is not new to one who comes later.
  if (reader->second.connection.is_stream() && --streams_ == 0) newest_.clear();
  readers_.erase(reader);
}

/// Tells epoll what to wait for. While an answer is under way, further requests wait in the socket.
bool HttpServer::watch(Readers::value_type& entry) {
  Reader& reader = entry.second;
  unsigned events = reader.connection.wants_input() ? kReadable : 0U;
  if (reader.connection.has_output()) events |= kWritable;
  if (events == reader.watched) return true;
  epoll_event event{};
  event.events = events;
  event.data.u64 = entry.first;
  const int operation = reader.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  reader.watched = events;
  return ::epoll_ctl(epoll_.number(), operation, reader.connection.socket(), &event) == 0;
}

/// Writes and answers as far as possible without waiting. False if the reader is gone.
bool HttpServer::advance(Readers::value_type& entry) {
  HttpConnection& connection = entry.second.connection;
  using State = HttpConnection::State;
  while (connection.flush()) {
    if (connection.state() == State::kStreaming && connection.offer(newest_)) continue;
    if (connection.state() != State::kReading) return watch(entry);
    const HttpParse parse = parse_http_request(connection.received());
    if (parse.state == HttpParse::State::kIncomplete) return watch(entry);
    if (parse.state == HttpParse::State::kRefused) {
      connection.answer(text_reply(parse.code, std::string(parse.reason) + "\n"),
                        connection.received().size(), false);
    } else {
      connection.answer(reply_to(parse.request), parse.bytes, parse.request.keep_alive);
    }
    if (!connection.is_stream()) continue;
    ++streams_;
    has_news_ = true;  // the new reader gets the newest events at once
    next_news_ = {};
  }
  return false;
}

HttpReply HttpServer::reply_to(const HttpRequest& request) {
  if (std::optional<HttpReply> refusal = access_.refuse(request)) return *std::move(refusal);
  HttpReply reply = content_.answer(request.path);
  if (!reply.is_stream || streams_ < options_.readers) return reply;
  return text_reply(503, "this page has " + std::to_string(options_.readers) +
                             " readers, more are not allowed; try again later\n");
}

}  // namespace edgepipe
