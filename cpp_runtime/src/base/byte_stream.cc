#include "base/byte_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/seconds_text.h"

namespace edgepipe {
namespace {

constexpr int kPollMs = 100;

Status corrupt(const std::string& text) { return Status(Code::kCorrupt, text); }

}  // namespace

/// Bytes read, 0 at the end of the input or on `stop`.
Result<std::size_t> ByteStream::read_some(std::span<std::byte> bytes, Clock::time_point due,
                                          const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd events{.fd = file_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&events, 1, kPollMs);
    if (ready == 0) {
      if (waiting_.limit.count() == 0) {
        step();
      } else if (Clock::now() >= due) {
        return Status(Code::kDeadline, "incomplete after " + seconds_text(waiting_.limit),
                      "check the program that writes it");
      }
    }
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(file_.number(), bytes.data(), bytes.size());
    if (count > 0) step();
    if (count == 0) ended_ = true;
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR || errno == EAGAIN) continue;
    return corrupt("cannot be read: " + std::generic_category().message(errno));
  }
  return std::size_t{0};
}

Result<bool> ByteStream::read(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  const Clock::time_point due = Clock::now() + waiting_.limit;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    Result<std::size_t> count = read_some(bytes.subspan(filled), due, stop);
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

}  // namespace edgepipe
