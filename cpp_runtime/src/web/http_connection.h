// HttpConnection: one reader's socket, what has arrived, what remains to be sent, and how long the
// reader may take.
//
//   if (!connection.receive()) close it;        // the socket is readable
//   connection.queue(text);
//   if (!connection.flush()) close it;          // or later, once the socket is writable
//   if (connection.is_overdue(Clock::now())) close it;
//
// Nothing blocks. Owns the socket. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "edgepipe/sync.h"
#include "web/http_reply.h"

namespace edgepipe {

class HttpConnection {
 public:
  /// How long a reader may take.
  struct Patience {
    std::chrono::milliseconds request{5000};   // for a whole request, however it trickles in
    std::chrono::milliseconds idle{15000};     // until it begins the next request
    std::chrono::milliseconds answer{30000};   // to take a whole answer
    std::chrono::milliseconds progress{5000};  // without taking a byte
    std::chrono::milliseconds farewell{1000};  // to close its end
  };

  enum class State {
    kReading,    // a request
    kAnswering,  // bytes of an answer are left
    kStreaming,  // events, without end
    kLeaving,    // everything is sent; waits for the reader's end, so that no answer is cut off
  };

  HttpConnection(FileDescriptor socket, const Patience& patience);

  [[nodiscard]] int socket() const { return socket_.number(); }
  [[nodiscard]] State state() const { return state_; }

  /// Reads what has arrived; a stream's or leaving reader's input is discarded. False once the
  /// reader is gone.
  bool receive();

  /// Bytes of requests that are not answered yet.
  [[nodiscard]] std::string_view received() const { return received_; }

  /// Sends the answer to the first `request_bytes` received.
  void answer(const HttpReply& reply, std::size_t request_bytes, bool keep_alive);

  /// Queues the events of `newest` that this stream has not had. A reader that still has bytes to
  /// take skips them. False if nothing was queued.
  bool offer(const std::vector<SharedText>& newest);

  /// Writes as much as the socket takes, and goes on to the next state after the last byte. False
  /// if the reader is gone.
  bool flush();

  [[nodiscard]] bool has_output() const { return !output_.empty(); }

  /// False while an answer is under way.
  [[nodiscard]] bool wants_input() const { return state_ != State::kAnswering; }

  /// Whether the answer is a stream, even if none of it is sent yet.
  [[nodiscard]] bool is_stream() const { return is_stream_; }

  /// Whether a full server may close this connection for a new one, because no whole request has
  /// come.
  [[nodiscard]] bool is_waiting() const {
    return state_ == State::kLeaving || state_ == State::kReading;
  }

  /// Whether the reader has taken longer than it may. Must be called several times a second.
  bool is_overdue(Clock::time_point now);

  /// Makes closing discard what the reader has not taken, so that the kernel keeps none of it.
  void discard_output();

 private:
  void enter(State state);
  [[nodiscard]] std::size_t bytes_to_take() const;

  FileDescriptor socket_;
  Patience patience_;
  State state_ = State::kReading;
  bool closes_ = false;     // after the answer
  bool is_stream_ = false;  // the answer is a stream's head
  bool was_answered_ = false;
  std::string received_;
  std::deque<SharedText> output_;
  std::size_t first_sent_ = 0;      // bytes of output_.front() that are sent
  std::vector<SharedText> had_;     // the stream's last events
  std::uint64_t queued_bytes_ = 0;  // since the start
  std::uint64_t taken_bytes_ = 0;   // of them, when is_overdue last looked
  Clock::time_point since_;         // start of the state, or of the request
  Clock::time_point progress_;
};

}  // namespace edgepipe
