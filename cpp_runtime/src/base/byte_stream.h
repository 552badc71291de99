// ByteStream: reads bytes from a file or a pipe; a blocked read can be stopped.
//
//   ByteStream stream(std::move(file));
//   Result<bool> more = stream.read(buffer, stop);  // false: the end, or `stop`
//
// With a time limit, a writer that neither writes nor closes the pipe is also an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ByteStream {
 public:
  struct Waiting {
    std::chrono::milliseconds limit{0};           // for one read(); 0: none
    std::atomic<std::uint64_t>* steps = nullptr;  // borrowed; grows as the stream makes progress
  };

  explicit ByteStream(FileDescriptor file) : ByteStream(std::move(file), Waiting()) {}
  ByteStream(FileDescriptor file, const Waiting& waiting)
      : file_(std::move(file)), waiting_(waiting) {}

  /// Fills `bytes`. False at the end of the input before the first byte, or once `stop` is set;
  /// kCorrupt if it ends later or cannot be read, kDeadline if the time limit passes first. Blocks;
  /// checks `stop` ten times a second. A step is a read that returned bytes or, without a time
  /// limit, one of these checks.
  Result<bool> read(std::span<std::byte> bytes, const std::atomic<bool>& stop);

  /// Whether the end of the input was read.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Result<std::size_t> read_some(std::span<std::byte> bytes, Clock::time_point due,
                                const std::atomic<bool>& stop);
  void step() const {
    if (waiting_.steps != nullptr) ++*waiting_.steps;
  }

  FileDescriptor file_;
  Waiting waiting_;
  bool ended_ = false;
};

}  // namespace edgepipe
