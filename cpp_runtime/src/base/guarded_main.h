// guarded_main: a program's work, in which a failed allocation is an error and never an abort.
//
//   int main(int argc, char** argv) {
//     return guarded_main("edgepipe-vta-run", [&] { return run(argc, argv); });
//   }
#pragma once

#include <new>

namespace edgepipe {

constexpr const char* kMoreMemory = "give the process more memory";

/// From now on, if an allocation fails where no exception may pass, such as in a destructor, the
/// process prints an error with `hint` and ends with exit code 1. Both texts must stay.
void end_when_starved(const char* program, const char* hint);

/// Prints that there is no memory, without allocating any. Returns 1, the exit code.
int report_starved(const char* program, const char* hint);

/// What `work` returns, the exit code. If an allocation fails, on any thread, prints an error with
/// `hint` and ends with 1. `program` and `hint` are printed as they are, and must stay.
template <typename Work>
int guarded_main(const char* program, const Work& work, const char* hint = kMoreMemory) {
  end_when_starved(program, hint);
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return report_starved(program, hint);
  }
}

}  // namespace edgepipe
