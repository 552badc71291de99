#include "stage/core_team.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "base/polling.h"

namespace edgepipe {
namespace {

constexpr std::uint64_t kPieceBits = 16;
constexpr std::uint64_t kPieceMask = (std::uint64_t{1} << kPieceBits) - 1;
// Waking a sleeping helper takes tens of microseconds; the kernels of a frame follow each other
// faster.
constexpr std::chrono::microseconds kPolling{50};

// A thread that goes to sleep announces it and then checks the condition once more. A thread that
// wakes others sets the condition first and then checks for sleepers. The announcement is an
// exchange, not a store: qemu-user reorders a load before a preceding store, which sequential
// consistency forbids.

thread_local CoreTeam* current_team = nullptr;

/// An exception in one piece would leave the other pieces running and their caller waiting.
int run_piece(CoreTeam::Body body, void* context, std::size_t piece) {
  try {
    return body(context, piece);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

std::uint64_t call_of(std::uint64_t ticket) { return ticket >> kPieceBits; }
std::size_t pieces_of(std::uint64_t ticket) {
  return static_cast<std::size_t>(ticket & kPieceMask);
}

}  // namespace

Result<std::unique_ptr<CoreTeam>> CoreTeam::start(const Options& options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    return Status(Code::kInvalidArgument,
                  "'" + options.name + "': found " + std::to_string(options.threads) +
                      " threads, expected 1 to " + std::to_string(kMostThreads));
  }
  const bool pinned = !options.cores.empty();
  if (pinned && options.cores.size() < options.threads) {
    return Status(Code::kInvalidArgument, "'" + options.name + "': found " +
                                              std::to_string(options.cores.size()) +
                                              " cores, expected one for each of " +
                                              std::to_string(options.threads) + " threads");
  }
  std::unique_ptr<CoreTeam> team(new CoreTeam(options.threads));
  // Without room for a helper that runs already, its end would be awaited before the team's.
  team->helpers_.reserve(options.threads - 1);
  for (std::size_t index = 1; index < options.threads; ++index) {
    Thread::Options wanted{.name = options.name + "." + std::to_string(index),
                           .cores = {},
                           .realtime_priority = options.realtime_priority};
    if (pinned) wanted.cores = {options.cores[index]};
    Result<Thread> helper = Thread::start(wanted, [raw = team.get()] { raw->help(); });
    if (!helper.ok()) return helper.status();
    team->helpers_.push_back(*std::move(helper));
  }
  return team;
}

CoreTeam::~CoreTeam() {
  ending_.store(true);
  {
    const MutexLock lock(mutex_);
    called_.notify();
  }
  helpers_.clear();
}

CoreTeam::CoreTeam(std::size_t threads)
    : threads_(threads), polls_(threads <= Thread::cores().size()) {}

int CoreTeam::run(std::size_t pieces, Body body, void* context) {
  if (pieces == 0) return 0;
  body_.store(body, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  error_.store(0, std::memory_order_relaxed);
  unfinished_.store(pieces, std::memory_order_relaxed);
  const std::uint64_t call = call_of(ticket_.load(std::memory_order_relaxed)) + 1;
  const std::uint64_t ticket = call << kPieceBits | pieces;
  ticket_.exchange(ticket);
  if (sleepers_.load() > 0) {
    const MutexLock lock(mutex_);
    called_.notify();
  }
  take_pieces(ticket);
  wait_until_finished();
  return error_.load(std::memory_order_relaxed);
}

/// Takes pieces of the ticket's call until none are left.
void CoreTeam::take_pieces(std::uint64_t ticket) {
  const std::uint64_t call = call_of(ticket);
  while (call_of(ticket) == call && pieces_of(ticket) > 0) {
    // If the call has ended meanwhile, these may belong to another call; the exchange then fails.
    const Body body = body_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    // Half of a fair share of the remaining pieces: few accesses to the ticket, small shares at the
    // end.
    const std::size_t end = pieces_of(ticket);
    const std::size_t taken = std::max<std::size_t>(1, end / (2 * threads_));
    if (!ticket_.compare_exchange_weak(ticket, ticket - taken, std::memory_order_acquire)) continue;
    for (std::size_t piece = end - taken; piece < end; ++piece) {
      if (error_.load(std::memory_order_relaxed) != 0) break;
      const int result = run_piece(body, context, piece);
      int none = 0;
      if (result != 0) error_.compare_exchange_strong(none, result, std::memory_order_relaxed);
    }
    finish_pieces(taken);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void CoreTeam::finish_pieces(std::size_t finished) {
  if (unfinished_.fetch_sub(finished) > finished || !caller_sleeps_.load()) return;
  const MutexLock lock(mutex_);
  finished_.notify();
}

void CoreTeam::wait_until_finished() {
  const auto finished = [this] { return unfinished_.load() == 0; };
  if (finished() || (polls_ && poll_for(kPolling, finished))) return;
  MutexLock lock(mutex_);
  caller_sleeps_.exchange(true);
  while (!finished()) static_cast<void>(finished_.wait_until(lock, far_future()));
  caller_sleeps_.store(false);
}

// ---- the helpers' side

void CoreTeam::help() {
  std::uint64_t call = 0;
  while (const std::optional<std::uint64_t> ticket = next_call(call)) {
    call = call_of(*ticket);
    take_pieces(*ticket);
  }
}

/// The ticket of a call other than `seen`; none if the team ends.
std::optional<std::uint64_t> CoreTeam::next_call(std::uint64_t seen) {
  const auto called = [&] { return call_of(ticket_.load()) != seen || ending_.load(); };
  if (!polls_ || !poll_for(kPolling, called)) {
    MutexLock lock(mutex_);
    sleepers_.fetch_add(1);
    while (!called()) static_cast<void>(called_.wait_until(lock, far_future()));
    sleepers_.fetch_sub(1);
  }
  if (ending_.load()) return std::nullopt;
  return ticket_.load();
}

// ---- the thread that a team helps

CoreTeam* CoreTeam::current() { return current_team; }

CoreTeam::Membership::Membership(CoreTeam* team) : before_(std::exchange(current_team, team)) {}

CoreTeam::Membership::~Membership() { current_team = before_; }

}  // namespace edgepipe
