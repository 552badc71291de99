// OwnedHere: a pointer to an object whose threads and files belong to the process that created it.
//
//   OwnedHere<Session> session(opened.release());
//
// A forked child has the object's memory, but not its threads, and shares its files with the
// parent. Destroying the object there would wait forever for threads and remove the parent's
// files, so a child never destroys it; its memory is freed when the child ends.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>

namespace edgepipe::binding {

/// The number of forks between the process that loaded the library and this one. Every call from
/// Python reads it; getpid would be a system call each time.
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

  /// Whether this is the process that created the object.
  [[nodiscard]] bool is_here() const { return fork_count() == forks_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_ = ::getpid();
  unsigned forks_ = fork_count();
};

template <typename T>
using OwnedHere = std::unique_ptr<T, DeleteHere>;

}  // namespace edgepipe::binding
