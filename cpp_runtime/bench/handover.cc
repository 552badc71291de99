// What a hand-over between two stages costs, beside what else there is, in the same run.
//
//   edgepipe-bench-handover           prints one JSON object, times in microseconds
//
// A hand-over is the time from the last instruction of one stage to the first of the next, each on
// its own core. Asleep, the second one waits in the kernel: beside it a bare futex wake, a queue of
// mutex and condition variable, and GStreamer's queue element. Spinning, it polls: beside it a
// cache line that goes to and fro between the cores, and Boost's single-producer queue.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gstreamer_queue.h"
#include "two_stages.h"

namespace edgepipe::bench {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

constexpr int kRounds = 1000;
constexpr auto kPause = 200us;  // long enough for the other side to sleep

double micros(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Runs `wait` in a pinned thread, kRounds times, each after a `wake` from another pinned thread;
/// returns the median time from just before the wake to the return of the wait.
double measure_wakes(const std::function<void(int round)>& wake,
                     const std::function<void(int round)>& wait) {
  std::vector<double> times(kRounds);
  std::atomic<int> done{-1};
  Clock::time_point sent;
  Result<Thread> receiver = Thread::start({.name = "receiver", .core = core_of(1)}, [&] {
    for (int round = 0; round < kRounds; ++round) {
      wait(round);
      times[static_cast<std::size_t>(round)] = micros(Clock::now() - sent);
      done.store(round, std::memory_order_release);
    }
  });
  Result<Thread> sender = Thread::start({.name = "sender", .core = core_of(0)}, [&] {
    for (int round = 0; round < kRounds; ++round) {
      std::this_thread::sleep_for(kPause);
      sent = Clock::now();
      wake(round);
      while (done.load(std::memory_order_acquire) < round) std::this_thread::sleep_for(20us);
    }
  });
  if (sender.ok()) sender->join();
  if (receiver.ok()) receiver->join();
  return median(std::move(times));
}

double bare_futex() {
  std::atomic<std::int32_t> turn{0};
  auto* const word = reinterpret_cast<std::int32_t*>(&turn);
  return measure_wakes(
      [&](int round) {
        turn.store(round + 1, std::memory_order_release);
        ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      },
      [&](int round) {
        while (turn.load(std::memory_order_acquire) <= round) {
          ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, round, nullptr, nullptr, 0);
        }
      });
}

double condition_queue() {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> queue;
  return measure_wakes(
      [&](int round) {
        {
          const std::scoped_lock lock(mutex);
          queue.push_back(round);
        }
        changed.notify_one();
      },
      [&](int) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !queue.empty(); });
        queue.pop_front();
      });
}

double gstreamer_queue() {
  std::vector<double> times(kRounds);
  std::atomic<int> done{-1};
  Clock::time_point sent;
  GstreamerQueue queue(
      [&](int round) {
        times[static_cast<std::size_t>(round)] = micros(Clock::now() - sent);
        done.store(round, std::memory_order_release);
      },
      core_of(1));
  Result<Thread> sender = Thread::start({.name = "sender", .core = core_of(0)}, [&] {
    for (int round = 0; round < kRounds; ++round) {
      std::this_thread::sleep_for(kPause);
      sent = Clock::now();
      queue.push(round);
      while (done.load(std::memory_order_acquire) < round) std::this_thread::sleep_for(20us);
    }
  });
  if (sender.ok()) sender->join();
  return median(std::move(times));
}

/// One way of a cache line that goes to and fro between two cores, neither of which does anything
/// else: half of the round trip.
double ping_pong() {
  constexpr int kTurns = 1000;
  alignas(64) std::atomic<int> ball{0};
  std::vector<double> times;
  const auto play = [&](int mine, bool timed) {
    for (int round = 0; round < kRounds / 10; ++round) {
      const Clock::time_point start = Clock::now();
      for (int turn = 0; turn < kTurns; ++turn) {
        while (ball.load(std::memory_order_acquire) != mine) {
        }
        ball.store(1 - mine, std::memory_order_release);
      }
      if (timed) times.push_back(micros(Clock::now() - start) / (2 * kTurns));
    }
  };
  Result<Thread> one = Thread::start({.name = "ping", .core = core_of(0)}, [&] { play(0, true); });
  Result<Thread> other =
      Thread::start({.name = "pong", .core = core_of(1)}, [&] { play(1, false); });
  if (one.ok()) one->join();
  if (other.ok()) other->join();
  return median(std::move(times));
}

double boost_queue() {
  boost::lockfree::spsc_queue<int, boost::lockfree::capacity<64>> queue;
  return measure_wakes([&](int round) { queue.push(round); },
                       [&](int) {
                         int found = 0;
                         while (!queue.pop(found)) {
                         }
                       });
}

/// With `spin`, the second stage's thread never sleeps meanwhile.
Result<double> pipeline_handover(DeviceMemory& memory, std::chrono::microseconds spin) {
  Clock::time_point left;
  std::vector<double> times;
  times.reserve(kRounds);
  Result<std::unique_ptr<Pipeline>> pipeline = two_stages(
      memory,
      [&](Views, Views) {
        left = Clock::now();
        return Status();
      },
      [&](Views, Views) {
        times.push_back(micros(Clock::now() - left));
        return Status();
      },
      spin);
  if (!pipeline.ok()) return pipeline.status();
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(kPause);
    if (Status status = send(**pipeline); !status.ok()) return status;
    if (auto frame = (*pipeline)->next(Clock::now() + 60s); !frame.ok()) return frame.status();
  }
  return median(times);
}

int run() {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 1 << 20});
  if (!memory.ok()) return 1;
  const double futex_us = bare_futex();
  const Result<double> asleep_us = pipeline_handover(**memory, 0us);
  const double condition_us = condition_queue();
  const double gstreamer_us = gstreamer_queue();
  const double ping_pong_us = ping_pong();
  const Result<double> spinning_us = pipeline_handover(**memory, 1s);
  const double boost_us = boost_queue();
  for (const Result<double>* result : {&asleep_us, &spinning_us}) {
    if (result->ok()) continue;
    std::fprintf(stderr, "handover: %s\n", result->status().message().c_str());
    return 1;
  }
  std::printf(
      "{\"futex_us\": %.3f, \"asleep_us\": %.3f, \"condition_queue_us\": %.3f, "
      "\"gstreamer_queue_us\": %.3f, \"ping_pong_us\": %.4f, \"spinning_us\": %.4f, "
      "\"boost_queue_us\": %.4f}\n",
      futex_us, *asleep_us, condition_us, gstreamer_us, ping_pong_us, *spinning_us, boost_us);
  return 0;
}

}  // namespace
}  // namespace edgepipe::bench

int main() { return edgepipe::bench::run(); }
