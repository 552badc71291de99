// ByteStream: reads bytes from a file or a pipe; a blocked read can be stopped.
//
//   ByteStream stream(std::move(file));
//   Result<bool> more = stream.read(buffer, stop);  // false: the end, or `stop`
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe {

class ByteStream {
 public:
  explicit ByteStream(FileDescriptor file) : file_(std::move(file)) {}

  /// Fills `bytes`. False at the end of the input before the first byte, or once `stop` is set;
  /// kCorrupt if it ends later or cannot be read. Blocks; checks `stop` ten times a second.
  Result<bool> read(std::span<std::byte> bytes, const std::atomic<bool>& stop);

 private:
  Result<std::size_t> read_some(std::span<std::byte> bytes, const std::atomic<bool>& stop);

  FileDescriptor file_;
};

}  // namespace edgepipe
