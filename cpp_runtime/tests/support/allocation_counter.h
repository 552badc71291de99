// How often the test program has called operator new (pipeline_allocation_test.cc replaces it).
#pragma once

namespace edgepipe::testing {

long allocation_count();

}  // namespace edgepipe::testing
