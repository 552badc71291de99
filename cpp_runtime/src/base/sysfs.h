// Reading the kernel's attribute files.
#pragma once

#include <cstdint>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// The first line of an attribute. kNotFound if it cannot be read.
Result<std::string> read_attribute(const std::string& path);

/// A number, decimal or with 0x. kCorrupt if it is not a number.
Result<std::uint64_t> read_number(const std::string& path);

}  // namespace edgepipe
