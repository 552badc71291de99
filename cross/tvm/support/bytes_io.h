// BytesInStream and BytesOutStream: streams from and to memory; TVM's wheels lack this header.
#pragma once

#include <tvm/ffi/string.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "one_way_stream.h"

namespace tvm::support {

/// Reads bytes that outlive it.
class BytesInStream : public SourceStream {
 public:
  explicit BytesInStream(const std::string& bytes) : left_(bytes) {}
  explicit BytesInStream(const ffi::Bytes& bytes) : left_(bytes.data(), bytes.size()) {}
  using Stream::Read;

  size_t Read(void* data, size_t size) override {
    const size_t piece = std::min(size, left_.size());
    std::memcpy(data, left_.data(), piece);
    left_.remove_prefix(piece);
    return piece;
  }

 private:
  std::string_view left_;
};

using BytesOutStream = SinkStream;

}  // namespace tvm::support
