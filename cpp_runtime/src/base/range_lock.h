// Range locks: locks of the kernel on bytes of a file, which belong to an open file description.
//
//   Result<bool> mine = lock_range(file.number(), {.first = 4096, .bytes = 100});
//   ...                                  // another open() of the file, by anybody, is refused them
//   unlock_range(file.number(), {.first = 4096, .bytes = 100});
//
// The kernel releases them when the last descriptor of that description is closed, so also when its
// process dies. Unlike locks of flock, different bytes are different locks; unlike the older record
// locks of fcntl, two descriptions of one process exclude each other. The bytes need not exist, and
// the file may be a device. (open file description locks, Linux 3.15)
#pragma once

#include <cstdint>
#include <optional>

#include "edgepipe/status.h"

namespace edgepipe {

struct FileRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;  // at least 1
};

/// False if another description has some of the range. kDevice if the file cannot have locks.
Result<bool> lock_range(int file, const FileRange& range);

/// Blocks until the range is free. kDevice as above.
Status await_range(int file, const FileRange& range);

/// Releases the range, or what is locked of it.
void unlock_range(int file, const FileRange& range);

/// The first locked range of another description that overlaps `range`; none if it is free.
std::optional<FileRange> locked_by_others(int file, const FileRange& range);

}  // namespace edgepipe
