#include "web/http_connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "web/http_request.h"

namespace edgepipe {

HttpConnection::HttpConnection(FileDescriptor socket, const Patience& patience)
    : socket_(std::move(socket)), patience_(patience), since_(Clock::now()), progress_(since_) {}

void HttpConnection::enter(State state) {
  state_ = state;
  since_ = progress_ = Clock::now();
}

bool HttpConnection::receive() {
  char piece[4096];
  for (;;) {
    const bool keeps = state_ == State::kReading || state_ == State::kAnswering;
    if (keeps && received_.size() >= kMostRequestBytes) return true;
    const std::size_t room = keeps ? kMostRequestBytes - received_.size() : sizeof(piece);
    const ssize_t count = ::recv(socket(), piece, std::min(sizeof(piece), room), MSG_DONTWAIT);
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (!keeps) continue;
    // For a request that follows another one, the time starts with its first byte.
    if (received_.empty() && was_answered_) since_ = Clock::now();
    received_.append(piece, static_cast<std::size_t>(count));
  }
}

void HttpConnection::answer(const HttpReply& reply, std::size_t request_bytes, bool keep_alive) {
  received_.erase(0, request_bytes);
  is_stream_ = reply.is_stream;
  closes_ = !keep_alive;
  was_answered_ = true;
  const auto queue = [this](SharedText text) {
    if (!text || text->empty()) return;
    queued_bytes_ += text->size();
    output_.push_back(std::move(text));
  };
  queue(std::make_shared<const std::string>(head_of(reply, keep_alive && !is_stream_)));
  queue(reply.body);
  enter(State::kAnswering);
}

bool HttpConnection::offer(const std::vector<SharedText>& newest) {
  if (has_output()) return false;
  had_.resize(newest.size());
  for (std::size_t topic = 0; topic < newest.size(); ++topic) {
    if (!newest[topic] || newest[topic] == had_[topic]) continue;
    had_[topic] = newest[topic];
    queued_bytes_ += newest[topic]->size();
    output_.push_back(newest[topic]);
  }
  return has_output();
}

bool HttpConnection::flush() {
  constexpr std::size_t kMostPieces = 4;
  while (!output_.empty()) {
    iovec pieces[kMostPieces];
    msghdr message{};
    message.msg_iov = pieces;
    for (const SharedText& text : output_) {
      const std::size_t sent = message.msg_iovlen == 0 ? first_sent_ : 0;
      // sendmsg does not write into the text.
      pieces[message.msg_iovlen] = {.iov_base = const_cast<char*>(text->data() + sent),
                                    .iov_len = text->size() - sent};
      if (++message.msg_iovlen == kMostPieces) break;
    }
    const ssize_t count = ::sendmsg(socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    first_sent_ += static_cast<std::size_t>(count);
    while (!output_.empty() && first_sent_ >= output_.front()->size()) {
      first_sent_ -= output_.front()->size();
      output_.pop_front();
    }
  }
  if (state_ != State::kAnswering) return true;
  if (is_stream_) {
    received_.clear();
    enter(State::kStreaming);
  } else if (closes_) {
    ::shutdown(socket(), SHUT_WR);
    received_.clear();
    enter(State::kLeaving);
  } else {
    enter(State::kReading);
  }
  return true;
}

/// Bytes that the reader's kernel has not confirmed: our own and those in the socket.
std::size_t HttpConnection::bytes_to_take() const {
  std::size_t bytes = 0;
  for (const SharedText& text : output_) bytes += text->size();
  int in_socket = 0;
  if (::ioctl(socket(), SIOCOUTQ, &in_socket) == 0) bytes += static_cast<std::size_t>(in_socket);
  return bytes - first_sent_;
}

bool HttpConnection::is_overdue(Clock::time_point now) {
  const Clock::duration age = now - since_;
  if (state_ == State::kLeaving) return age > patience_.farewell;
  if (state_ == State::kReading) {
    return age > (was_answered_ && received_.empty() ? patience_.idle : patience_.request);
  }
  const std::size_t left = bytes_to_take();
  const std::uint64_t taken = queued_bytes_ - std::min<std::uint64_t>(left, queued_bytes_);
  if (left == 0 || taken > taken_bytes_) progress_ = now;
  taken_bytes_ = taken;
  return now - progress_ > patience_.progress ||
         (state_ == State::kAnswering && age > patience_.answer);
}

void HttpConnection::discard_output() {
  const linger none{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

}  // namespace edgepipe
