// Reading the kernel's attribute files and their folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

/// What is in a folder, in any order; nothing if it cannot be read. kOutOfMemory if too many files
/// are open, which says nothing about the folder.
Result<std::vector<std::filesystem::path>> list_folder(const std::string& path);

/// The first line of an attribute. kNotFound if it cannot be read, kOutOfMemory as above.
Result<std::string> read_attribute(const std::string& path);

/// A number, decimal or with 0x. kCorrupt if it is not a number.
Result<std::uint64_t> read_number(const std::string& path);

}  // namespace edgepipe
