// Thread: a named, optionally pinned and prioritised thread that joins when destroyed.
//
//   Result<Thread> thread = Thread::start({.name = "conv1", .cores = {2, 3}}, [&] { work(); });
//   if (!thread.ok()) return thread.status();  // e.g. core 3 does not exist; work() has not run
//
// The process's own cores come from Thread::cores().
//
// Any allocation may fail. An exception that leaves a thread's body would end the process without
// an error, so std::bad_alloc ends only the body. A body that must continue, or that others wait
// for, catches it itself (or_out_of_memory) or passes `starved`, which is then called.
#pragma once

#include <pthread.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

class Thread {
 public:
  struct Options {
    std::string name;           // cut to 15 characters, the kernel's limit
    std::vector<int> cores;     // that it may run on; empty: any
    int realtime_priority = 0;  // 1-99: SCHED_FIFO (needs CAP_SYS_NICE); 0: the normal scheduler
  };

  /// Starts `body` on a new thread. Cores and priority apply from its first instruction. A core
  /// that this process may not use is kUnsupported; the message lists the allowed cores. Does not
  /// block. Any thread may call it. If an allocation of `body` fails, its thread calls `starved`
  /// and ends; `starved` must not allocate.
  static Result<Thread> start(const Options& options, std::function<void()> body,
                              std::function<void()> starved);
  static Result<Thread> start(const Options& options, std::function<void()> body);

  /// The cores this process may run on, ascending (the affinity mask, not the machine's cores).
  static std::vector<int> cores();

  Thread(Thread&& other) noexcept : handle_(std::exchange(other.handle_, std::nullopt)) {}
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { join(); }

  /// Blocks until the body has returned. A second call has no effect.
  void join();

 private:
  explicit Thread(pthread_t handle) : handle_(handle) {}

  std::optional<pthread_t> handle_;
};

}  // namespace edgepipe
