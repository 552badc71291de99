// Files that a program's results go to.
//
//   Result<OutputFile> file = create_file("-");  // standard output
//   Status status = write_all(file->get(), "a line\n", "-");
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe::programs {

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};
using OutputFile = std::unique_ptr<std::FILE, CloseFile>;

/// Creates a file for writing; - is standard output.
Result<OutputFile> create_file(const std::string& name);

/// Writes and flushes. An error names the file.
Status write_all(std::FILE* file, std::string_view bytes, const std::string& name);

/// Writes a whole file. After an error there is no file.
Status write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace edgepipe::programs
