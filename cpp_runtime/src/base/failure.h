// How a program reports a failure.
//
//   print_failure("edgepipe-run", status);
#pragma once

#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

/// Prints "PROGRAM: error: ..." and the status's hint to standard error. Thread-safe.
void print_failure(std::string_view program, const Status& status);

}  // namespace edgepipe
