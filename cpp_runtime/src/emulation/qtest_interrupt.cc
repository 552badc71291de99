#include "emulation/qtest_interrupt.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/open_failure.h"

namespace edgepipe {
namespace {

constexpr int kDeadlineMs = 5000;

std::string command(std::uint32_t spi, bool level) {
  return "set_irq_in /machine/soc/gic unnamed-gpio-in " + std::to_string(spi) +
         (level ? " 1\n" : " 0\n");
}

}  // namespace

Result<std::unique_ptr<QtestInterrupt>> QtestInterrupt::connect(const std::string& socket,
                                                                std::uint32_t spi) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument, socket + ": the path of a socket has at most " +
                                              std::to_string(sizeof address.sun_path - 1) +
                                              " bytes");
  }
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  FileDescriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!connection.valid() ||
      ::connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0) {
    return open_failure(Code::kNotFound, socket, errno);
  }
  return std::unique_ptr<QtestInterrupt>(new QtestInterrupt(std::move(connection), spi));
}

QtestInterrupt::QtestInterrupt(FileDescriptor connection, std::uint32_t spi)
    : connection_(std::move(connection)), raise_(command(spi, true)), lower_(command(spi, false)) {}

Status QtestInterrupt::set(bool high) { return exchange(high ? raise_ : lower_); }

Status QtestInterrupt::exchange(const std::string& command) {
  const ssize_t sent = ::send(connection_.number(), command.data(), command.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(command.size())) {
    return {Code::kClosed, std::string("qtest: ") + std::strerror(errno)};
  }
  std::string answer;
  while (answer.empty() || answer.back() != '\n') {
    pollfd waiting{.fd = connection_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kDeadlineMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return {Code::kDeadline, "qtest: no answer within 5 s"};
    std::array<char, 128> part{};
    const ssize_t received = ::recv(connection_.number(), part.data(), part.size(), 0);
    if (received <= 0) return {Code::kClosed, "qtest: QEMU has closed the connection"};
    answer.append(part.data(), static_cast<std::size_t>(received));
  }
  if (!answer.starts_with("OK")) return {Code::kDevice, "qtest: QEMU answered " + answer};
  return {};
}

bool QtestInterrupt::open() const {
  char byte = 0;
  const ssize_t received = ::recv(connection_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace edgepipe
