// Whether JPEG pictures can be tested here.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "media/pictures/jpeg_codec.h"

namespace edgepipe::testing {

/// Why not, or nothing. Under qemu-user there are the compiler's libraries only; on this machine
/// the library has to be there.
inline std::string jpeg_lacks() {
  const Result<JpegCodec> codec = JpegCodec::create();
  if (codec.ok()) return "";
#ifdef __x86_64__
  ADD_FAILURE() << codec.status().message();
#endif
  return codec.status().message();
}

}  // namespace edgepipe::testing
