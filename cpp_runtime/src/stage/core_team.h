// CoreTeam: a thread and its helpers, which share the iterations of a loop.
//
//   auto team = CoreTeam::start({.name = "conv1", .threads = 3, .cores = {1, 2, 3}});
//   if (!team.ok()) return team.status();  // e.g. core 3 does not exist
//
//   CoreTeam::Membership member(team->get());  // on the thread to help, which then runs on core 1
//
//   CoreTeam* mine = CoreTeam::current();  // in functions that this thread calls
//   if (mine != nullptr) mine->run(kPieces, body, context);
//
// A free thread takes the next pieces, so a core that is busy with other work does less. Between
// two calls, helpers poll briefly and then sleep. Nothing is allocated after start().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class CoreTeam {
 public:
  struct Options {
    std::string name;         // helper i is named <name>.<i>
    std::size_t threads = 1;  // including the thread that is helped
    std::vector<int> cores;   // thread i runs on the i-th of them, 0 being the one that is helped;
                              // empty: wherever the scheduler likes
    int realtime_priority = 0;  // of the helpers; see Thread::Options
  };
  /// Computes one piece; a nonzero result is an error. Pieces run concurrently.
  using Body = int (*)(void* context, std::size_t piece);

  static constexpr std::size_t kMostThreads = 64;
  static constexpr std::size_t kMostPieces = (1U << 16U) - 1;

  /// Starts threads - 1 helpers. kInvalidArgument for more than kMostThreads or fewer cores than
  /// threads, otherwise like Thread::start.
  static Result<std::unique_ptr<CoreTeam>> start(const Options& options);

  /// Ends the helpers; run() must not be running.
  ~CoreTeam();
  CoreTeam(const CoreTeam&) = delete;
  CoreTeam& operator=(const CoreTeam&) = delete;

  /// The number of threads that take pieces, including the caller of run().
  [[nodiscard]] std::size_t threads() const { return threads_; }

  /// Calls `body` once for each of at most kMostPieces pieces and blocks until all have returned;
  /// after an error, pieces that have not started are skipped. Returns the first error, or 0. One
  /// thread at a time may call it. Pieces see the caller's earlier writes, and the caller sees
  /// theirs.
  int run(std::size_t pieces, Body body, void* context) EDGEPIPE_EXCLUDES(mutex_);

  /// The team that helps the calling thread; null if there is none.
  static CoreTeam* current();

  /// During its lifetime, `team` helps the thread that created it. Null: no help.
  class Membership {
   public:
    explicit Membership(CoreTeam* team);
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    ~Membership();

   private:
    CoreTeam* const before_;
  };

 private:
  explicit CoreTeam(std::size_t threads);
  void help() EDGEPIPE_EXCLUDES(mutex_);
  std::optional<std::uint64_t> next_call(std::uint64_t seen) EDGEPIPE_EXCLUDES(mutex_);
  void take_pieces(std::uint64_t ticket);
  void finish_pieces(std::size_t finished) EDGEPIPE_EXCLUDES(mutex_);
  void wait_until_finished() EDGEPIPE_EXCLUDES(mutex_);

  const std::size_t threads_;
  const bool polls_;  // false if threads of the team share a core, where polling would delay both

  // The ticket: the number of the call in the high bits, and below it the number of pieces not
  // taken yet. A late helper finds another number or no pieces and does nothing, so a call does not
  // wait for helpers that have not woken up yet.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> error_{0};
  alignas(64) std::atomic<std::size_t> unfinished_{0};  // pieces that have not returned yet

  Mutex mutex_;
  CondVar called_;
  CondVar finished_;
  std::atomic<std::size_t> sleepers_{0};  // helpers that wait for called_
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> ending_{false};

  std::vector<Thread> helpers_;  // last, because they use all members above
};

}  // namespace edgepipe
