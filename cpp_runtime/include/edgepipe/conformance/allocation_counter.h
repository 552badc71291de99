// How often the test program has called operator new, which allocation_counter.cc replaces, and
// calls that fail.
#pragma once

namespace edgepipe::conformance {

long allocation_count();

/// The next `count` allocations of the calling thread fail.
void fail_allocations(long count);

}  // namespace edgepipe::conformance
