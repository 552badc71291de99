#include "array.h"

#include <string>
#include <utility>

#include "edgepipe/status.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

}  // namespace

std::span<std::byte> memory_of(const ffi::TensorView& tensor) {
  if (tensor.device().device_type != kDLCPU || !tensor.IsContiguous()) {
    check(Status(Code::kInvalidArgument,
                 "found a tensor of another device or with gaps, expected one of the CPU in C "
                 "order"));
  }
  return {static_cast<std::byte*>(tensor.data_ptr()) + tensor.byte_offset(),
          ffi::GetDataSize(static_cast<std::size_t>(tensor.numel()), tensor.dtype())};
}

Content::Content(ffi::AnyView value) {
  if (const auto tensor = value.try_cast<ffi::TensorView>()) {
    memory_ = memory_of(*tensor);
  } else {
    text_ = value.try_cast<ffi::Bytes>();
    if (!text_) {
      check(Status(Code::kInvalidArgument,
                   "found " + value.GetTypeKey() + ", expected a tensor or bytes"));
    }
  }
}

std::span<const std::byte> Content::bytes() const {
  if (text_) return std::as_bytes(std::span(text_->data(), text_->size()));
  return memory_;
}

ffi::Tensor borrow(std::span<std::byte> memory, std::shared_ptr<const void> owner) {
  return ffi::Tensor::FromNDAlloc(Borrowed{memory.data(), std::move(owner)},
                                  ffi::Shape{static_cast<std::int64_t>(memory.size())},
                                  DLDataType{kDLUInt, 8, 1}, DLDevice{kDLCPU, 0});
}

}  // namespace edgepipe::binding
