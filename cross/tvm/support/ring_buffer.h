// RingBuffer: the bytes between a connection and TVM's protocol; TVM's wheels lack this header.
#pragma once

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace tvm::support {

/// A queue of bytes in a ring that grows. The callbacks get the largest piece that is contiguous.
class RingBuffer {
 public:
  [[nodiscard]] size_t bytes_available() const { return used_; }

  /// Makes room for `size` bytes in total.
  void Reserve(size_t size) {
    if (size <= ring_.size()) return;
    std::vector<char> larger(std::max({size, 2 * ring_.size(), kLeast}));
    const size_t used = used_;
    Read(larger.data(), used);
    ring_ = std::move(larger);
    begin_ = 0;
    used_ = used;
  }

  void Read(void* data, size_t size) {
    TVM_FFI_ICHECK_LE(size, used_);
    char* to = static_cast<char*>(data);
    while (size != 0) {
      const size_t piece = std::min(size, ring_.size() - begin_);
      std::memcpy(to, ring_.data() + begin_, piece);
      drop(piece);
      to += piece;
      size -= piece;
    }
  }

  void Write(const void* data, size_t size) {
    Reserve(used_ + size);
    const char* from = static_cast<const char*>(data);
    while (size != 0) {
      const size_t piece = std::min(size, ring_.size() - end());
      std::memcpy(ring_.data() + end(), from, piece);
      used_ += piece;
      from += piece;
      size -= piece;
    }
  }

  /// Offers up to `most` bytes to `send(data, size)`, which returns how many it took.
  template <typename Send>
  size_t ReadWithCallback(Send send, size_t most) {
    TVM_FFI_ICHECK_LE(most, used_);
    const size_t offered = std::min(most, ring_.size() - begin_);
    const size_t taken = send(ring_.data() + begin_, offered);
    TVM_FFI_ICHECK_LE(taken, offered);
    drop(taken);
    return taken;
  }

  /// Lets `receive(data, size)` add up to `most` bytes; it returns how many it did.
  template <typename Receive>
  size_t WriteWithCallback(Receive receive, size_t most) {
    Reserve(used_ + most);
    const size_t offered = std::min(most, ring_.size() - end());
    const size_t added = receive(ring_.data() + end(), offered);
    TVM_FFI_ICHECK_LE(added, offered);
    used_ += added;
    return added;
  }

 private:
  static constexpr size_t kLeast = 4096;

  /// Where the next byte goes. The ring is not empty.
  [[nodiscard]] size_t end() const {
    const size_t end = begin_ + used_;
    return end < ring_.size() ? end : end - ring_.size();
  }

  void drop(size_t size) {
    used_ -= size;
    begin_ += size;
    if (begin_ == ring_.size() || used_ == 0) begin_ = 0;
  }

  std::vector<char> ring_;
  size_t begin_ = 0;
  size_t used_ = 0;
};

}  // namespace tvm::support
