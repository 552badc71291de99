// Counts the test program's calls of operator new, which allocation_counter.cc replaces, and makes
// calls fail on request.
#pragma once

namespace edgepipe::conformance {

long allocation_count();

/// The next `count` allocations of the calling thread fail.
void fail_allocations(long count);

}  // namespace edgepipe::conformance
