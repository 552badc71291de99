// The hint after an error message: what a user can do about the failure.
//
//   print_failure("edgepipe-run", status);
#pragma once

#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

/// A sentence for failures of this kind, NUL-terminated and static; empty for kOk.
[[nodiscard]] std::string_view remedy(Code code);

/// Prints "PROGRAM: error: ..." and its hint to standard error. Thread-safe.
void print_failure(std::string_view program, const Status& status);

}  // namespace edgepipe
