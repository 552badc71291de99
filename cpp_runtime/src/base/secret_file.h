// read_secret_file: the content of a small file that not every user may read.
//
//   Result<std::string> token = read_secret_file(path, 256, "run `openssl rand -hex 16 >FILE`");
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// The first `most_bytes` of the file. kNotFound, with `advice` as the hint; kInvalidArgument if it
/// is not a regular file or others may read or write it. No message contains the content.
Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t most_bytes,
                                     const std::string& advice);

}  // namespace edgepipe
