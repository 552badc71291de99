// SourceStream and SinkStream: what the streams of this folder, which only read or only write, have
// in common.
#pragma once

#include <tvm/ffi/error.h>
#include <tvm/support/io.h>

#include <string>

namespace tvm::support {

/// A stream for reading; writing throws ffi::Error.
class SourceStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  size_t Write(const void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for reading was written to";
    TVM_FFI_UNREACHABLE();
  }
};

/// A stream for writing that appends to a text; reading throws ffi::Error.
class SinkStream : public Stream {
 public:
  /// `text` outlives the stream.
  explicit SinkStream(std::string* text) : text_(text) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for writing was read";
    TVM_FFI_UNREACHABLE();
  }
  size_t Write(const void* data, size_t size) override {
    text_->append(static_cast<const char*>(data), size);
    return size;
  }

 private:
  std::string* text_;
};

}  // namespace tvm::support
