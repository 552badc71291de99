// Mutex, MutexLock and CondVar, annotated for clang's -Wthread-safety.
//
//   mutable Mutex mutex_;
//   std::uint64_t frames_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
//   ...
//   MutexLock lock(mutex_);
//   while (frames_ == 0) {
//     if (!changed_.wait_until(lock, deadline)) return ...;  // the deadline has passed
//   }
//
// Every wait takes a deadline on the monotonic clock: setting the wall clock changes no wait.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>
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

/// Like std::condition_variable, which before glibc 2.30 waits for a time of the wall clock: a wait
/// then ends early, or hangs, if that clock is set.
class CondVar {
 public:
  CondVar() {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic,
                              CLOCK_MONOTONIC);  // the clock of std::chrono::steady_clock
    pthread_cond_init(&condition_, &monotonic);
    pthread_condattr_destroy(&monotonic);
  }
  ~CondVar() { pthread_cond_destroy(&condition_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void notify() { pthread_cond_broadcast(&condition_); }
  /// Wakes one of the waiting threads.
  void notify_one() { pthread_cond_signal(&condition_); }

  /// Blocks until notified (or spuriously); false once `deadline` has passed.
  bool wait_until(MutexLock& lock, Clock::time_point deadline) {
    const auto since_start = deadline.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_start);
    const auto rest = std::chrono::nanoseconds(since_start - seconds);
    constexpr std::int64_t kLatest = std::numeric_limits<time_t>::max();  // 2^31 - 1 on armhf
    const timespec until{static_cast<time_t>(std::min<std::int64_t>(seconds.count(), kLatest)),
                         static_cast<long>(rest.count())};
    pthread_cond_timedwait(&condition_, lock.lock_.mutex()->native_handle(), &until);
    return Clock::now() < deadline;
  }

 private:
  pthread_cond_t condition_;
};

}  // namespace edgepipe
