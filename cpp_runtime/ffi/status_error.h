// A failed status as an exception of TVM-FFI, which carries it into Python and over TVM's RPC.
#pragma once

#include <tvm/ffi/error.h>

#include <string>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe::binding {

/// The exception's kind. RPC hands on the message only, so that the message has the code.
inline constexpr const char* kStatusError = "edgepipe.Status";

/// Throws "status CODE: TEXT" unless it is ok. Without a backtrace: a wait that has ended is no
/// fault, and finding one takes longer than a frame.
inline void check(const Status& status) {
  if (status.ok()) return;
  throw tvm::ffi::Error(
      kStatusError,
      "status " + std::to_string(static_cast<int>(status.code())) + ": " + status.message(), "");
}

template <typename T>
T value_of(Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace edgepipe::binding
