// OwnedHere: a pointer to an object whose threads and files belong to the process that made it.
//
//   OwnedHere<Session> session(opened.release());
//
// A forked child has the object's memory, but not its threads, and shares its files with the
// parent. Destroying the object there would wait for threads for ever and remove the parent's
// files, so in a child the object is left as it is; the end of the child frees its memory.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>

namespace edgepipe::binding {

/// How many forks lie between this process and the one that loaded the library. It is asked in
/// every call from Python, where getpid would be a system call.
inline unsigned fork_count() {
  static std::atomic<unsigned> count{0};
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  return count.load(std::memory_order_relaxed);
}

class DeleteHere {
 public:
  template <typename T>
  void operator()(T* object) const {
    if (is_here()) delete object;
  }

  /// Whether this is the process that made the object.
  [[nodiscard]] bool is_here() const { return fork_count() == forks_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_ = ::getpid();
  unsigned forks_ = fork_count();
};

template <typename T>
using OwnedHere = std::unique_ptr<T, DeleteHere>;

}  // namespace edgepipe::binding
