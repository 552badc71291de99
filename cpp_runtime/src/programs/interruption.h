// Ctrl-C and SIGTERM for programs: the first one requests a clean end.
#pragma once

#include <atomic>

namespace edgepipe::programs {

/// Set by the first SIGINT or SIGTERM after catch_interrupts().
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

/// Sets `interrupted` on SIGINT and SIGTERM; a second one ends the program at once.
void catch_interrupts();

}  // namespace edgepipe::programs
