#include "web/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "edgepipe/sync.h"

namespace edgepipe {
namespace {

constexpr int kPatienceMs = 100;
constexpr std::size_t kMostRequestBytes = 16384;
constexpr std::chrono::seconds kRequestTime{2};  // browsers open connections in advance
constexpr std::chrono::seconds kWriteTime{10};

std::string_view reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Error";
  }
}

std::string head(int code, std::string_view type) {
  return "HTTP/1.1 " + std::to_string(code) + " " + std::string(reason(code)) +
         "\r\nContent-Type: " + std::string(type) +
         "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n";
}

bool is_ready(int socket, short events) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  return ::poll(&waiting, 1, kPatienceMs) > 0;
}

/// The request up to its empty line; empty if it does not arrive in time or is too long.
std::string read_request(int socket, const std::atomic<bool>& ending) {
  std::string request;
  const Clock::time_point deadline = Clock::now() + kRequestTime;
  while (!ending && Clock::now() < deadline && request.size() < kMostRequestBytes) {
    if (!is_ready(socket, POLLIN)) continue;
    char piece[2048];
    const ssize_t count = ::recv(socket, piece, sizeof(piece), 0);
    if (count <= 0) return {};
    request.append(piece, static_cast<std::size_t>(count));
    if (request.find("\r\n\r\n") != std::string::npos) return request;
  }
  return {};
}

}  // namespace

bool HttpReply::write_all(std::string_view bytes) {
  const Clock::time_point deadline = Clock::now() + kWriteTime;
  while (!bytes.empty()) {
    if (ending_ || Clock::now() > deadline) return false;
    if (!is_ready(socket_, POLLOUT)) continue;
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool HttpReply::send(int code, std::string_view type, std::string_view body) {
  return write_all(head(code, type) + "Content-Length: " + std::to_string(body.size()) +
                   "\r\n\r\n") &&
         write_all(body);
}

bool HttpReply::send(int code, std::string_view type, std::span<const std::byte> body) {
  return send(code, type,
              std::string_view(reinterpret_cast<const char*>(body.data()), body.size()));
}

bool HttpReply::start_stream(std::string_view type) { return write_all(head(200, type) + "\r\n"); }

bool HttpReply::write(std::string_view piece) {
  // If the reader has closed its end, the socket is readable and returns 0 bytes.
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  char byte = 0;
  if (::poll(&waiting, 1, 0) > 0 && ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
    return false;
  }
  return write_all(piece);
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Options& options, Handler handler) {
  const std::string name = options.address + ":" + std::to_string(options.port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(options.port));
  if (::inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1) {
    return Status(Code::kInvalidArgument, name + ": expected an IPv4 address and a port");
  }
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || ::bind(listener.number(), generic, bytes) != 0 ||
      ::listen(listener.number(), 16) != 0 ||
      ::getsockname(listener.number(), generic, &bytes) != 0) {
    return Status(Code::kNotFound,
                  name + ": cannot be bound: " + std::generic_category().message(errno),
                  "choose another port, or stop the program that uses it");
  }
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(listener), options.address,
                                                    ntohs(address.sin_port), std::move(handler)));
  for (int index = 0; index < options.connections; ++index) {
    Result<Thread> thread = Thread::start({.name = "http", .cores = {}},
                                          [raw = server.get()] { raw->accept_connections(); });
    if (!thread.ok()) return thread.status();
    server->threads_.push_back(std::move(*thread));
  }
  return server;
}

HttpServer::HttpServer(FileDescriptor listener, std::string address, int port, Handler handler)
    : listener_(std::move(listener)),
      address_(std::move(address)),
      port_(port),
      handler_(std::move(handler)) {}

HttpServer::~HttpServer() {
  ending_ = true;
  threads_.clear();
}

std::string HttpServer::url() const {
  return "http://" + address_ + ":" + std::to_string(port_) + "/";
}

/// Each thread waits for connections and answers one at a time.
void HttpServer::accept_connections() {
  while (!ending_) {
    if (!is_ready(listener_.number(), POLLIN)) continue;
    const FileDescriptor socket(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.valid()) answer(socket.number());  // otherwise another thread accepted it
  }
}

bool HttpServer::host_allowed(std::string_view request) const {
  if (!address_.starts_with("127.")) return true;
  std::string lower(request);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter + 32 : letter; });
  constexpr std::string_view kField = "\r\nhost:";
  const std::size_t found = lower.find(kField);
  if (found == std::string::npos) return false;
  std::string_view host = std::string_view(lower).substr(found + kField.size());
  host = host.substr(0, host.find('\r'));
  host.remove_prefix(std::min(host.find_first_not_of(' '), host.size()));
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == address_;
}

void HttpServer::answer(int socket) {
  const std::string request = read_request(socket, ending_);
  if (request.empty()) return;
  HttpReply reply(socket, ending_);
  const std::size_t space = request.find(' ');
  const std::size_t end = request.find_first_of(" ?\r", space + 1);
  if (space == std::string::npos || end == std::string::npos || request[space + 1] != '/') {
    reply.send(400, "text/plain", "not an HTTP request\n");
  } else if (request.compare(0, space, "GET") != 0) {
    reply.send(405, "text/plain", "only GET is supported\n");
  } else if (!host_allowed(request)) {
    reply.send(403, "text/plain", "use localhost or " + address_ + "\n");
  } else {
    handler_(request.substr(space + 1, end - space - 1), reply);
  }
  ::shutdown(socket, SHUT_WR);
}

}  // namespace edgepipe
