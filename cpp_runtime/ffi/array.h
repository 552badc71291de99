// Arrays at the border: tensors, whose memory is used as it is, or bytes.
//
// On the host an array is a tensor that shares memory with numpy. Over RPC it is a tensor of the
// server's, or bytes, which travel with the call and so save a round trip.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/string.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace edgepipe::binding {

/// The memory of a tensor in C order. Throws a kInvalidArgument for another one.
std::span<std::byte> memory_of(const tvm::ffi::TensorView& tensor);

/// What is in an array, a tensor or bytes; `value` outlives it. Throws a kInvalidArgument for
/// anything else.
class Content {
 public:
  explicit Content(tvm::ffi::AnyView value);
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  std::optional<tvm::ffi::Bytes> text_;
  std::span<const std::byte> memory_;
};

/// Memory that somebody else owns and that outlives the tensor, or lives as long as `owner`: for
/// Tensor::FromNDAlloc.
struct Borrowed {
  void* data;
  std::shared_ptr<const void> owner = nullptr;
  void AllocData(DLTensor* tensor) const { tensor->data = data; }  // NOLINT: TVM's own names
  void FreeData(DLTensor*) const {}                                // NOLINT
};

/// A tensor of bytes over memory that lives as long as `owner`, which the tensor keeps.
tvm::ffi::Tensor borrow(std::span<std::byte> memory, std::shared_ptr<const void> owner);

}  // namespace edgepipe::binding
