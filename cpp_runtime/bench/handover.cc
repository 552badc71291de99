// The cost of a handover between two stages, compared with alternatives in the same run.
//
//   edgepipe-bench-handover           prints one JSON object, times in microseconds
//
// A handover is the time from the last instruction of one stage to the first of the next, each on
// its own core. Asleep: the second stage waits in the kernel; compared with a bare futex wake, a
// queue of mutex and condition variable, and GStreamer's queue element. Spinning: it polls;
// compared with a bare cache line that one core writes and the other reads, and with Boost's
// single-producer queue.
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

#include "base/thread.h"
#include "gstreamer_queue.h"
#include "two_stages.h"

namespace edgepipe::bench {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

constexpr int kRounds = 1000;
constexpr auto kPause = 200us;  // long enough for the other side to fall asleep

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
  Result<Thread> receiver = Thread::start({.name = "receiver", .cores = {core_of(1)}}, [&] {
    for (int round = 0; round < kRounds; ++round) {
      wait(round);
      times[static_cast<std::size_t>(round)] = micros(Clock::now() - sent);
      done.store(round, std::memory_order_release);
    }
  });
  Result<Thread> sender = Thread::start({.name = "sender", .cores = {core_of(0)}}, [&] {
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
  Result<Thread> sender = Thread::start({.name = "sender", .cores = {core_of(0)}}, [&] {
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

/// Time stamps of one side. They are combined with those of the other side only at the end, because
/// reading a stamp on the other core would transfer a second cache line.
using Stamps = std::vector<Clock::time_point>;

double median_between(const Stamps& left, const Stamps& arrived) {
  std::vector<double> times;
  for (std::size_t round = 0; round < left.size(); ++round) {
    times.push_back(micros(arrived[round] - left[round]));
  }
  return median(std::move(times));
}

/// Time for the other core to finish the last round and to wait again.
void let_wait() {
  const Clock::time_point end = Clock::now() + 5us;
  while (Clock::now() < end) {
  }
}

/// The median time from before send(round) to after receive(round), on two pinned threads that
/// never sleep.
template <typename Send, typename Receive>
double measure_spinning(Send send, Receive receive) {
  Stamps left(kRounds);
  Stamps arrived(kRounds);
  alignas(64) std::atomic<std::size_t> done{0};
  Result<Thread> receiver = Thread::start({.name = "receiver", .cores = {core_of(1)}}, [&] {
    for (std::size_t round = 0; round < kRounds; ++round) {
      receive(static_cast<int>(round));
      arrived[round] = Clock::now();
      done.store(round + 1, std::memory_order_release);
    }
  });
  Result<Thread> sender = Thread::start({.name = "sender", .cores = {core_of(0)}}, [&] {
    for (std::size_t round = 0; round < kRounds; ++round) {
      while (done.load(std::memory_order_acquire) < round) {
      }
      let_wait();
      left[round] = Clock::now();
      send(static_cast<int>(round));
    }
  });
  if (sender.ok()) sender->join();
  if (receiver.ok()) receiver->join();
  return median_between(left, arrived);
}

/// The one-way transfer of a cache line between two otherwise idle cores.
double cache_line() {
  alignas(64) std::atomic<int> line{-1};
  return measure_spinning([&](int round) { line.store(round, std::memory_order_release); },
                          [&](int round) {
                            while (line.load(std::memory_order_acquire) != round) {
                            }
                          });
}

double boost_queue() {
  boost::lockfree::spsc_queue<int, boost::lockfree::capacity<64>> queue;
  return measure_spinning([&](int round) { queue.push(round); },
                          [&](int) {
                            int found = 0;
                            while (!queue.pop(found)) {
                            }
                          });
}

/// All frames are sent at once, so that the two stages can use the two cores alone.
Result<double> handover_spinning(DeviceMemory& memory) {
  Stamps left;
  Stamps arrived;
  left.reserve(kRounds);
  arrived.reserve(kRounds);
  alignas(64) std::atomic<std::size_t> done{0};
  Result<std::unique_ptr<Pipeline>> pipeline = two_stages(
      memory,
      [&](Views, Views) {
        while (done.load(std::memory_order_acquire) < left.size()) {
        }
        let_wait();
        left.push_back(Clock::now());
        return Status();
      },
      [&](Views, Views) {
        arrived.push_back(Clock::now());
        done.store(arrived.size(), std::memory_order_release);
        return Status();
      },
      {.slots = kRounds, .threads = {}, .crews = {}, .spin = 1s});
  if (!pipeline.ok()) return pipeline.status();
  for (int round = 0; round < kRounds; ++round) {
    if (Status status = send(**pipeline); !status.ok()) return status;
  }
  if (Status status = (*pipeline)->drain(Clock::now() + 60s); !status.ok()) return status;
  return median_between(left, arrived);
}

Result<double> handover_asleep(DeviceMemory& memory) {
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
      });
  if (!pipeline.ok()) return pipeline.status();
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(kPause);
    if (Status status = send(**pipeline); !status.ok()) return status;
    if (auto frame = (*pipeline)->next(Clock::now() + 60s); !frame.ok()) return frame.status();
  }
  return median(times);
}

int run() {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 1 << 24});
  if (!memory.ok()) return 1;
  const double futex_us = bare_futex();
  const Result<double> asleep_us = handover_asleep(**memory);
  const double condition_us = condition_queue();
  const double gstreamer_us = gstreamer_queue();
  const double cache_line_us = cache_line();
  const Result<double> spinning_us = handover_spinning(**memory);
  const double boost_us = boost_queue();
  for (const Result<double>* result : {&asleep_us, &spinning_us}) {
    if (result->ok()) continue;
    std::fprintf(stderr, "handover: %s\n", result->status().message().c_str());
    return 1;
  }
  std::printf(
      "{\"futex_us\": %.3f, \"asleep_us\": %.3f, \"condition_queue_us\": %.3f, "
      "\"gstreamer_queue_us\": %.3f, \"cache_line_us\": %.4f, \"spinning_us\": %.4f, "
      "\"boost_queue_us\": %.4f}\n",
      futex_us, *asleep_us, condition_us, gstreamer_us, cache_line_us, *spinning_us, boost_us);
  return 0;
}

}  // namespace
}  // namespace edgepipe::bench

int main() { return edgepipe::bench::run(); }
