// Files that a program's results go to.
//
//   Result<FileDescriptor> file = create_file("-");  // standard output
//   Status status = write_all(*file, "a line\n", "-");
//
// Nothing is buffered, and a signal loses no byte: the rest of an interrupted write is written
// again.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe::programs {

/// Creates a file for writing; - is standard output.
Result<FileDescriptor> create_file(const std::string& name);

/// Writes everything; blocks while a pipe is full. After a request to end (interruption.h), it is
/// an error if the reader takes nothing for five seconds. An error names the file.
Status write_all(const FileDescriptor& file, std::string_view bytes, const std::string& name);

/// Writes a whole file. After an error there is no file.
Status write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace edgepipe::programs
