// Arrays in calls from Python: tensors, whose memory is used in place, or bytes.
//
// On the host an array is a tensor that shares memory with numpy. Over RPC it is a tensor on the
// server, or bytes, which are sent with the call and so save a round trip.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/string.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace edgepipe::binding {

/// The memory of a tensor. Throws a kInvalidArgument if the tensor is not in C order.
std::span<std::byte> memory_of(const tvm::ffi::TensorView& tensor);

/// The content of an array, a tensor or bytes, valid as long as `value`. Throws a kInvalidArgument
/// for anything else.
class Content {
 public:
  explicit Content(tvm::ffi::AnyView value);
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  std::optional<tvm::ffi::Bytes> text_;
  std::span<const std::byte> memory_;
};

/// Borrowed memory for Tensor::FromNDAlloc: valid longer than the tensor, or as long as `owner`.
struct Borrowed {
  void* data;
  std::shared_ptr<const void> owner = nullptr;
  void AllocData(DLTensor* tensor) const { tensor->data = data; }  // NOLINT: TVM's own names
  void FreeData(DLTensor*) const {}                                // NOLINT
};

/// A tensor of bytes over memory that lives as long as `owner`, which the tensor keeps.
tvm::ffi::Tensor borrow(std::span<std::byte> memory, std::shared_ptr<const void> owner);

}  // namespace edgepipe::binding
