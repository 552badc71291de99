// Base64InStream and Base64OutStream, over another stream; TVM's wheels lack this header.
#pragma once

#include <tvm/ffi/extra/base64.h>
#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tvm::support {

/// Decodes all that is left in another stream.
class Base64InStream : public Stream {
 public:
  explicit Base64InStream(Stream* encoded) : encoded_(encoded) {}
  using Stream::Read;
  using Stream::Write;

  /// Reads and decodes; called once, before Read().
  void InitPosition() {
    std::string text;
    char piece[1024];
    while (const size_t size = encoded_->Read(static_cast<void*>(piece), sizeof piece)) {
      text.append(piece, size);
    }
    decoded_ = ffi::Base64Decode(ffi::String(text));
  }
  size_t Read(void* data, size_t size) override {
    const size_t piece = std::min(size, decoded_.size() - position_);
    std::memcpy(data, decoded_.data() + position_, piece);
    position_ += piece;
    return piece;
  }
  size_t Write(const void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for reading was written to";
    TVM_FFI_UNREACHABLE();
  }

 private:
  Stream* encoded_;
  ffi::Bytes decoded_;
  size_t position_ = 0;
};

/// Encodes what was written, at Finish().
class Base64OutStream : public Stream {
 public:
  explicit Base64OutStream(Stream* encoded) : encoded_(encoded) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void*, size_t) override {
    TVM_FFI_THROW(InternalError) << "a stream for writing was read";
    TVM_FFI_UNREACHABLE();
  }
  size_t Write(const void* data, size_t size) override {
    bytes_.append(static_cast<const char*>(data), size);
    return size;
  }
  void Finish() {
    const ffi::String text = ffi::Base64Encode(ffi::Bytes(bytes_));
    encoded_->Write(static_cast<const void*>(text.data()), text.size());
  }

 private:
  Stream* encoded_;
  std::string bytes_;
};

}  // namespace tvm::support
