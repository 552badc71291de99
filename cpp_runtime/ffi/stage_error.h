// guarded: keeps exceptions out of the pipeline's threads.
#pragma once

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

namespace edgepipe::binding {

/// Runs the body of an EpStageFunction; an exception becomes its return value and its text in
/// `error`, cut to the available size.
template <typename Body>
int guarded(const Body& body, char* error, std::uint64_t error_bytes) {
  std::string text;
  try {
    body();
    return 0;
  } catch (const tvm::ffi::Error& cause) {  // what() of TVM's own libraries begins with a traceback
    text = cause.message();
  } catch (const std::exception& cause) {
    text = cause.what();
  }
  const std::size_t length = std::min(text.size(), static_cast<std::size_t>(error_bytes) - 1);
  std::memcpy(error, text.data(), length);
  error[length] = '\0';
  return 1;
}

}  // namespace edgepipe::binding
