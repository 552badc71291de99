// BytesInStream and BytesOutStream: streams from and to memory; TVM's wheels lack this header.
#pragma once

#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace tvm::support {

/// Reads bytes that outlive it.
class BytesInStream : public Stream {
 public:
  explicit BytesInStream(const std::string& bytes) : left_(bytes) {}
  explicit BytesInStream(const ffi::Bytes& bytes) : left_(bytes.data(), bytes.size()) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void* data, size_t size) override {
    const size_t piece = std::min(size, left_.size());
    std::memcpy(data, left_.data(), piece);
    left_.remove_prefix(piece);
    return piece;
  }
  size_t Write(const void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for reading was written to";
    TVM_FFI_UNREACHABLE();
  }

 private:
  std::string_view left_;
};

/// Appends to a text that outlives it.
class BytesOutStream : public Stream {
 public:
  explicit BytesOutStream(std::string* bytes) : bytes_(bytes) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for writing was read";
    TVM_FFI_UNREACHABLE();
  }
  size_t Write(const void* data, size_t size) override {
    bytes_->append(static_cast<const char*>(data), size);
    return size;
  }

 private:
  std::string* bytes_;
};

}  // namespace tvm::support
