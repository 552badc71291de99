// or_out_of_memory: std::bad_alloc as a status, for the bodies of threads.
//
//   const Status status = or_out_of_memory([&] { return stage.run(slot); });
//
// Any allocation may fail. An exception that leaves a thread's body would end the process without
// an error, so every body catches this one and ends the frame or the run cleanly.
#pragma once

#include <new>

#include "edgepipe/status.h"

namespace edgepipe {

/// Allocates nothing: the text fits into the string itself.
inline Status out_of_memory() { return {Code::kOutOfMemory, "out of memory"}; }

/// What `work` returns, a Status or a Result; kOutOfMemory if an allocation fails.
template <typename Work>
auto or_out_of_memory(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace edgepipe
