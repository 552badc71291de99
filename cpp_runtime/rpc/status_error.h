// A failed status as the exception that TVM's RPC carries over to the client.
#pragma once

#include <tvm/ffi/error.h>

#include <utility>

#include "edgepipe/status.h"

namespace edgepipe::rpc {

/// Throws the status' text unless it is ok.
inline void check(const Status& status) {
  if (!status.ok()) TVM_FFI_THROW(RuntimeError) << status.message();
}

template <typename T>
T value_of(Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace edgepipe::rpc
