#include "socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace edgepipe::rpc {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol's integers are");

constexpr int kBacklog = 8;

std::string reason() { return std::strerror(errno); }

Status transfer_error(const char* what) {
  return Status(Code::kClosed, std::string(what) + ": " + reason());
}

}  // namespace

Socket::Socket(FileDescriptor descriptor, std::chrono::milliseconds patience,
               std::vector<int> stop_on)
    : descriptor_(std::move(descriptor)),
      end_(Clock::now() + patience),
      stop_on_(std::move(stop_on)) {
  // If a socket refuses the option, its reads and writes fail too, and that is reported.
  const int one = 1;
  setsockopt(number(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Result<Socket> Socket::connect(const std::string& host, std::uint16_t port,
                               std::chrono::milliseconds patience,
                               const std::vector<int>& stop_on) {
  const std::string address = host + ":" + std::to_string(port);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found)) {
    return Status(Code::kNotFound, address + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    FileDescriptor descriptor(::socket(
        one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
    if (!descriptor.valid()) continue;
    Socket socket(std::move(descriptor), patience, stop_on);
    if (::connect(socket.number(), one->ai_addr, one->ai_addrlen) == 0) return socket;
    if (errno != EINPROGRESS) continue;
    if (Status status = socket.wait(POLLOUT, "connect"); !status.ok()) {
      if (status.code() == Code::kClosed) return status;
      errno = ETIMEDOUT;
      continue;
    }
    socklen_t bytes = sizeof errno;
    if (::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &errno, &bytes) == 0 && errno == 0) {
      return socket;
    }
  }
  return Status(Code::kNotFound, address + ": cannot connect: " + reason());
}

Result<std::int32_t> Socket::read_int() {
  std::int32_t value = 0;
  Status status = read_all(&value, sizeof value);
  if (!status.ok()) return status;
  return value;
}

Status Socket::write_int(std::int32_t value) { return write_all(&value, sizeof value); }

Result<std::string> Socket::read_text(std::size_t most_bytes) {
  Result<std::int32_t> bytes = read_int();
  if (!bytes.ok()) return bytes.status();
  if (*bytes < 0 || static_cast<std::size_t>(*bytes) > most_bytes) {
    return Status(Code::kCorrupt, "found a text of " + std::to_string(*bytes) +
                                      " bytes, expected at most " + std::to_string(most_bytes));
  }
  std::string text(static_cast<std::size_t>(*bytes), '\0');
  Status status = read_all(text.data(), text.size());
  if (!status.ok()) return status;
  return text;
}

Status Socket::write_text(std::string_view text) {
  Status status = write_int(static_cast<std::int32_t>(text.size()));
  return status.ok() ? write_all(text.data(), text.size()) : status;
}

void Socket::finish(std::chrono::milliseconds patience) {
  allow(patience);
  if (::shutdown(number(), SHUT_WR) != 0) return;  // the peer has closed its half already
  std::array<char, 4096> dropped{};
  while (read_all(dropped.data(), dropped.size()).ok()) continue;
}

Status Socket::wait(short events, const char* what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    if (left <= 0) return Status(Code::kDeadline, std::string(what) + ": the peer is too slow");
    std::vector<pollfd> waits = {{number(), events, 0}};
    for (const int descriptor : stop_on_) waits.push_back({descriptor, POLLIN, 0});
    const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return transfer_error("poll");
    if (ready <= 0) continue;
    for (std::size_t index = 1; index < waits.size(); ++index) {
      if (waits[index].revents != 0) {
        return Status(Code::kClosed, std::string(what) + ": the server is stopping");
      }
    }
    return {};
  }
}

Status Socket::read_all(void* data, std::size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    if (Status status = wait(POLLIN, "read"); !status.ok()) return status;
    const ssize_t count = ::recv(number(), next, bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return transfer_error("read");
    if (count == 0) return Status(Code::kClosed, "read: the peer has closed the connection");
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return {};
}

Status Socket::write_all(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    if (Status status = wait(POLLOUT, "write"); !status.ok()) return status;
    const ssize_t count = ::send(number(), next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return transfer_error("write");
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return {};
}

Result<FileDescriptor> listen_on_loopback(std::uint16_t port) {
  const auto failed = [&](const char* what) {
    const bool taken = errno == EADDRINUSE;
    return Status(Code::kDevice,
                  "127.0.0.1:" + std::to_string(port) + ": " + what + ": " + reason(),
                  taken ? "choose another port, or stop the program that uses it" : "");
  };
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return failed("cannot create a socket");
  const int one = 1;
  setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.number(), kBacklog) != 0) {
    return failed("cannot listen");
  }
  return listener;
}

Result<std::uint16_t> port_of(const FileDescriptor& listener) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return Status(Code::kInternal, "getsockname: " + reason());
  }
  return ntohs(address.sin_port);
}

Status set_patience(int descriptor, std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  timeval time{};
  time.tv_sec = static_cast<decltype(time.tv_sec)>(seconds.count());
  time.tv_usec = static_cast<decltype(time.tv_usec)>(
      std::chrono::duration_cast<std::chrono::microseconds>(patience - seconds).count());
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(descriptor, SOL_SOCKET, option, &time, sizeof time) != 0) {
      return Status(Code::kInternal, "setsockopt: " + reason());
    }
  }
  return {};
}

}  // namespace edgepipe::rpc
