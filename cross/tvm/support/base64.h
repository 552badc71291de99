// Base64InStream and Base64OutStream, over another stream; TVM's wheels lack this header.
#pragma once

#include <tvm/ffi/extra/base64.h>

#include <optional>
#include <string>

#include "bytes_io.h"

namespace tvm::support {

/// Decodes all that is left in another stream.
class Base64InStream : public SourceStream {
 public:
  explicit Base64InStream(Stream* encoded) : encoded_(encoded) {}
  using Stream::Read;

  /// Reads and decodes; called once, before Read().
  void InitPosition() {
    std::string text;
    char piece[1024];
    while (const size_t size = encoded_->Read(static_cast<void*>(piece), sizeof piece)) {
      text.append(piece, size);
    }
    decoded_ = ffi::Base64Decode(ffi::String(text));
    left_.emplace(decoded_);
  }
  size_t Read(void* data, size_t size) override { return left_->Read(data, size); }

 private:
  Stream* encoded_;
  ffi::Bytes decoded_;
  std::optional<BytesInStream> left_;
};

/// Encodes what was written, at Finish().
class Base64OutStream : public SinkStream {
 public:
  explicit Base64OutStream(Stream* encoded) : SinkStream(&bytes_), encoded_(encoded) {}

  void Finish() {
    const ffi::String text = ffi::Base64Encode(ffi::Bytes(bytes_));
    encoded_->Write(static_cast<const void*>(text.data()), text.size());
  }

 private:
  Stream* encoded_;
  std::string bytes_;
};

}  // namespace tvm::support
