// Mutex, MutexLock and CondVar: the standard types, annotated for clang's -Wthread-safety.
//
//   mutable Mutex mutex_;
//   std::uint64_t frames_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
//   ...
//   MutexLock lock(mutex_);
//   while (frames_ == 0) {
//     if (!changed_.wait_until(lock, deadline)) return ...;  // the deadline has passed
//   }
//
// Every wait takes a deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define EDGEPIPE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define EDGEPIPE_THREAD_ATTRIBUTE(x)
#endif

#define EDGEPIPE_CAPABILITY(x) EDGEPIPE_THREAD_ATTRIBUTE(capability(x))
#define EDGEPIPE_SCOPED_CAPABILITY EDGEPIPE_THREAD_ATTRIBUTE(scoped_lockable)
#define EDGEPIPE_GUARDED_BY(x) EDGEPIPE_THREAD_ATTRIBUTE(guarded_by(x))
#define EDGEPIPE_REQUIRES(x) EDGEPIPE_THREAD_ATTRIBUTE(requires_capability(x))
#define EDGEPIPE_EXCLUDES(x) EDGEPIPE_THREAD_ATTRIBUTE(locks_excluded(x))
#define EDGEPIPE_ACQUIRE(...) EDGEPIPE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define EDGEPIPE_RELEASE(...) EDGEPIPE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace edgepipe {

/// The clock of every deadline and duration.
using Clock = std::chrono::steady_clock;

/// A deadline that never comes. Clock::time_point::max() overflows inside some C libraries.
inline Clock::time_point far_future() { return Clock::now() + std::chrono::hours(24 * 365); }

class EDGEPIPE_CAPABILITY("mutex") Mutex {
 public:
  void lock() EDGEPIPE_ACQUIRE() { mutex_.lock(); }
  void unlock() EDGEPIPE_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class EDGEPIPE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EDGEPIPE_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() EDGEPIPE_RELEASE() {}  // NOLINT(modernize-use-equals-default): carries the attribute
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

class CondVar {
 public:
  void notify() { condition_.notify_all(); }

  /// Blocks until notified (or spuriously); false once `deadline` has passed.
  bool wait_until(MutexLock& lock, Clock::time_point deadline) {
    return condition_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace edgepipe
