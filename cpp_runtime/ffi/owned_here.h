// OwnedHere: a pointer to an object whose threads and files belong to the process that made it.
//
//   OwnedHere<Session> session(opened.release());
//
// A forked child has the object's memory, but not its threads, and shares its files with the
// parent. Destroying the object there would wait for threads for ever and remove the parent's
// files, so in a child the object is left as it is; the end of the child frees its memory.
#pragma once

#include <unistd.h>

#include <memory>

namespace edgepipe::binding {

class DeleteHere {
 public:
  template <typename T>
  void operator()(T* object) const {
    if (is_here()) delete object;
  }

  /// Whether this is the process that made the object.
  [[nodiscard]] bool is_here() const { return ::getpid() == process_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_ = ::getpid();
};

template <typename T>
using OwnedHere = std::unique_ptr<T, DeleteHere>;

}  // namespace edgepipe::binding
