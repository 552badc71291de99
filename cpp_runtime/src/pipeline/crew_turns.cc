// The crews' half of FrameSchedule: which stage a thread runs next, and when it sleeps.
#include <algorithm>

#include "base/polling.h"
#include "pipeline/frame_schedule.h"

namespace edgepipe {

std::optional<FrameSchedule::Turn> FrameSchedule::await_turn(std::size_t crew, std::size_t thread) {
  std::uint64_t seen = 0;
  std::optional<Turn> turn;
  if (take_turn(crew, turn, seen)) {
    const Clock::time_point begin = Clock::now();
    WaitHistory& waits = crew_waits_[thread];
    const bool polls = waits.all_short();
    const std::atomic<std::uint64_t>& calls = calls_[crew].count;
    const auto called = [&] { return calls.load(std::memory_order_acquire) != seen; };
    while (polls && poll_for(begin + kCrewPoll - Clock::now(), called) &&
           take_turn(crew, turn, seen)) {
    }
    if (!turn) sleep_until_turn(crew, turn);
    waits.add(Clock::now() - begin);
  }
  if (turn) turn->thread = thread;
  return turn;
}

/// Takes the next turn of a crew, if there is one; true if the thread has to wait for it. `seen` is
/// then how often the crew has been called.
bool FrameSchedule::take_turn(std::size_t crew, std::optional<Turn>& turn, std::uint64_t& seen) {
  MutexLock lock(mutex_);
  seen = calls_[crew].count.load(std::memory_order_relaxed);
  return !next_turn(crew, turn) && !has_ended(crew);
}

void FrameSchedule::sleep_until_turn(std::size_t crew, std::optional<Turn>& turn) {
  MutexLock lock(mutex_);
  while (!next_turn(crew, turn) && !has_ended(crew)) {
    // An idle camera is not a fault; stop() and cancel() end this wait.
    static_cast<void>(wake_[crew].wait_until(lock, far_future()));
  }
}

bool FrameSchedule::next_turn(std::size_t crew, std::optional<Turn>& turn) {
  turn = oldest_turn(crew);
  if (!turn) return false;
  progress_[turn->stage].running.store(true, std::memory_order_relaxed);
  if (has_ended(crew)) {
    ++calls_[crew].count;
    wake_[crew].notify();  // nothing is left for the others
  } else if (oldest_turn(crew)) {
    call(crew);
  }
  return true;
}

/// Wakes a thread of a worker or crew, after it can run a frame.
void FrameSchedule::call(std::size_t worker) {
  if (!calls_.empty()) calls_[worker].count.fetch_add(1, std::memory_order_release);
  wake_[worker].notify_one();
}

/// The oldest frame comes first: it holds its slot longest, and another crew waits for it.
std::optional<FrameSchedule::Turn> FrameSchedule::oldest_turn(std::size_t crew) const {
  std::optional<Turn> oldest;
  for (const std::size_t stage : crews_[crew]) {
    const std::uint64_t frame = stages_[stage].finished;
    if (oldest && frame >= oldest->frame) continue;
    if (frame >= limit_ || progress_[stage].running || !ready(stage, frame)) continue;
    oldest = Turn{.stage = stage, .frame = frame};
  }
  return oldest;
}

/// True once each stage of a crew runs its last frame or has finished it.
bool FrameSchedule::has_ended(std::size_t crew) const {
  return limit_ != UINT64_MAX && std::ranges::all_of(crews_[crew], [this](std::size_t stage) {
           return stages_[stage].finished + (progress_[stage].running ? 1 : 0) >= limit_;
         });
}

/// Wakes other crews; the thread that ran `stage` looks for the next turn of its own crew itself.
void FrameSchedule::wake_crews(std::size_t stage, bool completes) {
  for (const std::size_t consumer : consumers_[stage]) {
    if (consumer != options_.stages[stage].worker) call(consumer);
  }
  if (!completes) return;
  frame_completed_.notify();
  slot_freed_.notify();  // see await_slot
}

}  // namespace edgepipe
