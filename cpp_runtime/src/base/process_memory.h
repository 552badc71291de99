// How much memory this process has used.
#pragma once

#include <cstdint>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// The most memory in bytes that this process has had resident since its program started, from the
/// kernel's `path`. kNotFound if the file cannot be read, kCorrupt if it does not say. (getrusage
/// also counts the process that started this one.)
Result<std::uint64_t> peak_resident_bytes(const std::string& path = "/proc/self/status");

/// The bytes that this process has resident now; errors as above.
Result<std::uint64_t> resident_bytes(const std::string& path = "/proc/self/status");

}  // namespace edgepipe
