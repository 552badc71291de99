// A failed status as an exception of TVM-FFI, which carries it into Python and over TVM's RPC.
#pragma once

#include <tvm/ffi/error.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe::binding {

/// The exception's kind. RPC passes on only the message, so the message contains the code.
inline constexpr const char* kStatusError = "edgepipe.Status";

/// The text with U+FFFD in place of bytes that are not UTF-8, e.g. in a file's name, because
/// Python's strings and JSON accept nothing else.
inline std::string utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace))
      .get<std::string>();
}

/// Throws "status CODE: TEXT", and a line "hint: HINT" if the status has one, unless it is ok.
/// Without a backtrace: a wait that times out is not a fault, and a backtrace takes longer than a
/// frame.
inline void check(const Status& status) {
  if (status.ok()) return;
  const std::string code = std::to_string(static_cast<int>(status.code()));
  std::string text = "status " + code + ": " + utf8(status.message());
  if (!status.hint().empty()) text += "\nhint: " + utf8(status.hint());
  throw tvm::ffi::Error(kStatusError, text, "");
}

template <typename T>
T value_of(Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace edgepipe::binding
