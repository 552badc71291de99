// How often the test program has called operator new; allocation_counter.cc replaces it.
#pragma once

namespace edgepipe::conformance {

long allocation_count();

}  // namespace edgepipe::conformance
