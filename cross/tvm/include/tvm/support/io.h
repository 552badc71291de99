// Stream: the byte stream that TVM's runtime reads and writes; TVM's wheels lack this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tvm::support {

template <typename T>
struct Serializer;  // serializer.h

/// A source and sink of bytes. Read() and Write() of a size return the bytes done. The templates
/// use Serializer and are false at the end of the stream.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual size_t Read(void* data, size_t size) = 0;
  virtual size_t Write(const void* data, size_t size) = 0;

  template <typename T>
  void Write(const T& value) {
    Serializer<T>::Write(this, value);
  }
  template <typename T>
  bool Read(T* value) {
    return Serializer<T>::Read(this, value);
  }
  template <typename T>
  void WriteArray(const T* values, size_t count) {
    for (size_t index = 0; index < count; ++index) Write<T>(values[index]);
  }
  template <typename T>
  bool ReadArray(T* values, size_t count) {
    for (size_t index = 0; index < count; ++index) {
      if (!Read<T>(values + index)) return false;
    }
    return true;
  }
};

}  // namespace tvm::support

#include <tvm/support/serializer.h>
