// memory_file: content as a file without a name, for what reads files only.
//
//   Result<FileDescriptor> file = memory_file("kernels.so", bytes);
//   const std::string path = "/proc/self/fd/" + std::to_string(file->number());
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// A file in memory with this content, open at its start. kOutOfMemory, with `name`, if the process
/// has no memory or descriptor for it, or may not write a file of its size. Any thread may call it.
Result<FileDescriptor> memory_file(const std::string& name, std::span<const std::byte> content);

}  // namespace edgepipe
