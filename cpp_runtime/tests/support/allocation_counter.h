// Counts the test program's calls of operator new (pipeline_allocation_test.cc replaces it).
#pragma once

namespace edgepipe::testing {

long allocation_count();

}  // namespace edgepipe::testing
