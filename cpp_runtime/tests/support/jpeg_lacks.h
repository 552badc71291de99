// Whether JPEG pictures can be tested here.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "media/pictures/jpeg_codec.h"

namespace edgepipe::testing {

/// The reason why not, or an empty text. Under qemu-user, only the compiler's libraries exist; on
/// this machine the library is required.
inline std::string jpeg_lacks() {
  const Result<JpegCodec> codec = JpegCodec::create();
  if (codec.ok()) return "";
#ifdef __x86_64__
  ADD_FAILURE() << codec.status().message();
#endif
  return codec.status().message();
}

}  // namespace edgepipe::testing
