#include "edgepipe/byte_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace edgepipe {
namespace {

constexpr int kPollMs = 100;

Status corrupt(const std::string& text) { return Status(Code::kCorrupt, text); }

/// A decimal number after white space and comments; takes the one white space behind it along.
Result<int> read_number(ByteStream& stream, const std::atomic<bool>& stop) {
  int value = 0;
  int digits = 0;
  bool comment = false;
  for (;;) {
    std::byte byte{};
    Result<bool> more = stream.read(std::span(&byte, 1), stop);
    if (!more.ok()) return more.status();
    if (!*more) return corrupt("the input ends inside the picture's header");
    const char letter = static_cast<char>(byte);
    if (comment) {
      comment = letter != '\n';
    } else if (letter >= '0' && letter <= '9' && digits < 6) {
      value = value * 10 + (letter - '0');
      ++digits;
    } else if (letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r') {
      if (digits > 0) return value;
    } else if (letter == '#' && digits == 0) {
      comment = true;
    } else {
      return corrupt("the picture's header is damaged");
    }
  }
}

}  // namespace

/// Bytes read, 0 at the end of the input or on `stop`.
Result<std::size_t> ByteStream::read_some(std::span<std::byte> bytes,
                                          const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd events{.fd = file_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&events, 1, kPollMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(file_.number(), bytes.data(), bytes.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR || errno == EAGAIN) continue;
    return corrupt("cannot be read: " + std::generic_category().message(errno));
  }
  return std::size_t{0};
}

Result<bool> ByteStream::read(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    Result<std::size_t> count = read_some(bytes.subspan(filled), stop);
    if (!count.ok()) return count.status();
    if (*count == 0) {
      if (filled == 0 || stop) return false;
      return corrupt("the input ends after " + std::to_string(filled) + " of " +
                     std::to_string(bytes.size()) + " bytes");
    }
    filled += *count;
  }
  return true;
}

Result<std::optional<PnmHeader>> read_pnm_header(ByteStream& stream,
                                                 const std::atomic<bool>& stop) {
  std::byte start[2];
  Result<bool> more = stream.read(start, stop);
  if (!more.ok()) return more.status();
  if (!*more) return std::optional<PnmHeader>();
  const char kind = static_cast<char>(start[1]);
  if (static_cast<char>(start[0]) != 'P' || (kind != '5' && kind != '6')) {
    return corrupt("not a binary PPM (P6) or PGM (P5) picture");
  }
  int numbers[3];
  for (int& number : numbers) {
    Result<int> found = read_number(stream, stop);
    if (!found.ok()) return stop ? Result(std::optional<PnmHeader>()) : found.status();
    number = *found;
  }
  const auto [width, height, largest] = numbers;
  if (largest != 255) {
    return corrupt("the largest value is " + std::to_string(largest) + ", expected 255");
  }
  return std::optional(PnmHeader{.gray = kind == '5', .width = width, .height = height});
}

}  // namespace edgepipe
