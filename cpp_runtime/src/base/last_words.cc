#include "base/last_words.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/open_failure.h"

namespace edgepipe {
namespace {

constexpr std::size_t kKeptBytes = 4096;  // a line and more

}  // namespace

// A socket instead of a pipe: shutdown ends reading after everything that has been written, even
// while a grandchild still holds the other end.
Result<std::unique_ptr<LastWords>> LastWords::listen() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return open_failure(Code::kInternal, "socketpair", errno);
  }
  std::unique_ptr<LastWords> words(new LastWords(FileDescriptor(ends[0]), FileDescriptor(ends[1])));
  words->end_.reserve(2 * kKeptBytes);
  Result<Thread> thread = Thread::start({.name = "last words", .cores = {}},
                                        [reader = words.get()] { reader->read(); });
  if (!thread.ok()) return thread.status();
  words->thread_ = *std::move(thread);
  return words;
}

void LastWords::read() {
  std::array<char, kKeptBytes> piece{};
  for (;;) {
    const ssize_t count = ::read(reader_.number(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    end_.append(piece.data(), static_cast<std::size_t>(count));  // within what listen() reserved
    if (end_.size() > kKeptBytes) end_.erase(0, end_.size() - kKeptBytes);
  }
}

void LastWords::finish() {
  ::shutdown(reader_.number(), SHUT_RD);
  if (thread_) thread_->join();
}

std::string LastWords::text() {
  finish();
  return end_;
}

std::string LastWords::last_line() {
  finish();
  const std::size_t last = end_.find_last_not_of('\n');
  if (last == std::string::npos) return {};
  const std::size_t before = end_.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return end_.substr(first, last + 1 - first);
}

}  // namespace edgepipe
