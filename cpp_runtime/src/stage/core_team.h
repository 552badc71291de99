// CoreTeam: a thread and its helpers, which share the iterations of a loop among them.
//
//   auto team = CoreTeam::start({.name = "conv1", .threads = 3, .cores = {1, 2, 3}});
//   if (!team.ok()) return team.status();  // e.g. core 3 does not exist
//
//   CoreTeam::Membership member(team->get());  // on the thread that is to be helped: on core 1
//
//   CoreTeam* mine = CoreTeam::current();  // in what that thread calls
//   if (mine != nullptr) mine->run(kPieces, body, context);
//
// Whoever is free takes the next pieces, so a core that others disturb does less. Between two calls
// helpers poll for a moment and then sleep; nothing is allocated after start().
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
    std::string name;         // helper i is called <name>.<i>
    std::size_t threads = 1;  // the thread that is helped included
    std::vector<int> cores;   // thread i runs on the i-th of them, 0 being the one that is helped;
                              // empty: wherever the scheduler likes
    int realtime_priority = 0;  // of the helpers; see Thread::Options
  };
  /// Computes one piece; what is not 0 is an error. Pieces run at the same time.
  using Body = int (*)(void* context, std::size_t piece);

  static constexpr std::size_t kMostThreads = 64;
  static constexpr std::size_t kMostPieces = (1U << 16U) - 1;

  /// Starts threads - 1 helpers. kInvalidArgument for more than kMostThreads or fewer cores than
  /// threads, else as Thread::start.
  static Result<std::unique_ptr<CoreTeam>> start(const Options& options);

  /// Ends the helpers; run() must not be running.
  ~CoreTeam();
  CoreTeam(const CoreTeam&) = delete;
  CoreTeam& operator=(const CoreTeam&) = delete;

  /// Threads that take pieces, the caller of run() included.
  [[nodiscard]] std::size_t threads() const { return threads_; }

  /// Calls `body` once for each of at most kMostPieces pieces and blocks until all have returned;
  /// after an error pieces that have not begun are left out. Returns the first error, or 0. One
  /// thread at a time calls it; what it wrote before, pieces see, and the caller what they wrote.
  int run(std::size_t pieces, Body body, void* context) EDGEPIPE_EXCLUDES(mutex_);

  /// The team that helps the calling thread; null when it works alone.
  static CoreTeam* current();

  /// While it lives, `team` helps the thread that made it. Null is no help.
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
  const bool polls_;  // not where threads of the team share a core: that would hold up both

  // What is to be done: the call's number and below it how many pieces nobody has taken. A helper
  // that is late finds another number or no piece and touches nothing, so a call does not wait for
  // helpers that have not woken up yet.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> error_{0};
  alignas(64) std::atomic<std::size_t> unfinished_{0};  // pieces that have not returned

  Mutex mutex_;
  CondVar called_;
  CondVar finished_;
  std::atomic<std::size_t> sleepers_{0};  // helpers that wait for called_
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> ending_{false};

  std::vector<Thread> helpers_;  // last: they use all of the above
};

}  // namespace edgepipe
