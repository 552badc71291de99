// Reads the accelerator's description that a test program is given.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "edgepipe/accelerator.h"
#include "edgepipe/status.h"

namespace edgepipe::testing {

/// The errors of parse_accelerator; those of a file that cannot be read are those of an empty one.
inline Result<Accelerator> read_accelerator(const std::string& path) {
  std::ifstream file(path);
  return parse_accelerator(std::string{std::istreambuf_iterator<char>(file), {}});
}

}  // namespace edgepipe::testing
