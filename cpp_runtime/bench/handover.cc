// What a hand-over between two stages costs, and what throughput is left.
//
//   edgepipe-bench-handover           prints one JSON object, times in microseconds
//
// A hand-over is the time from the last instruction of one stage to the first of the next, each on
// its own core, the second asleep. Beside it, in the same run: a bare futex wake, and a queue of
// mutex and condition variable. Throughput: two stages that compute for 5 ms and for 20 ms. Idle:
// the processor time of a pipeline that has nothing to do.
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "edgepipe/function_stage.h"
#include "edgepipe/pipeline.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

constexpr int kRounds = 2000;
constexpr auto kPause = 200us;  // long enough for the other side to sleep

double micros(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

int core_of(std::size_t index) {
  const std::vector<int> cores = Thread::cores();
  return cores[index % cores.size()];
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

Graph two_stages(FunctionStage::Body first, FunctionStage::Body second) {
  Graph graph;
  for (const char* name : {"in", "between", "out"}) {
    graph.tensors.push_back({.name = name, .dtype = "", .shape = {}, .layout = "", .bytes = 8});
  }
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes.push_back({.stage = std::make_unique<FunctionStage>("first", std::move(first)),
                         .reads = {0},
                         .writes = {1}});
  graph.nodes.push_back({.stage = std::make_unique<FunctionStage>("second", std::move(second)),
                         .reads = {1},
                         .writes = {2}});
  return graph;
}

Result<std::unique_ptr<Pipeline>> start(DeviceMemory& memory, FunctionStage::Body first,
                                        FunctionStage::Body second) {
  return Pipeline::create(two_stages(std::move(first), std::move(second)), memory,
                          {.cores = {core_of(0), core_of(1)}});
}

Status send(Pipeline& pipeline) {
  const std::uint64_t value = 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
  return pipeline.submit(std::span(&bytes, 1), Clock::now() + 10s).status();
}

Result<double> pipeline_handover(DeviceMemory& memory) {
  Clock::time_point left;
  std::vector<double> times;
  times.reserve(kRounds);
  Result<std::unique_ptr<Pipeline>> pipeline = start(
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
    if (auto frame = (*pipeline)->next(Clock::now() + 10s); !frame.ok()) return frame.status();
  }
  return median(times);
}

/// Frames per second over those of the slower stage alone, 1 being the best there is.
Result<double> efficiency(DeviceMemory& memory, Clock::duration work, int frames) {
  const auto compute = [work](Views, Views) {
    const Clock::time_point end = Clock::now() + work;
    while (Clock::now() < end) {
    }
    return Status();
  };
  Result<std::unique_ptr<Pipeline>> pipeline = start(memory, compute, compute);
  if (!pipeline.ok()) return pipeline.status();
  int submitted = 0;
  for (int taken = 0; taken < frames; ++taken) {
    while (submitted < frames && submitted < taken + 3) {
      if (Status status = send(**pipeline); !status.ok()) return status;
      ++submitted;
    }
    if (auto frame = (*pipeline)->next(Clock::now() + 10s); !frame.ok()) return frame.status();
  }
  const PipelineStatistics statistics = (*pipeline)->statistics();
  double slowest_ms = 0;
  for (const StageStatistics& stage : statistics.stages) {
    slowest_ms = std::max(slowest_ms, stage.busy.mean_ms);
  }
  return statistics.frames_per_second * slowest_ms / 1000;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Percent of one core that a pipeline takes while it waits for frames, over two seconds.
Result<double> idle_percent(DeviceMemory& memory) {
  const auto nothing = [](Views, Views) { return Status(); };
  Result<std::unique_ptr<Pipeline>> pipeline = start(memory, nothing, nothing);
  if (!pipeline.ok()) return pipeline.status();
  const double before = processor_seconds();
  std::this_thread::sleep_for(2s);
  return (processor_seconds() - before) / 2 * 100;
}

int run() {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 1 << 20});
  if (!memory.ok()) return 1;
  const double futex_us = bare_futex();
  const double condition_us = condition_queue();
  const Result<double> handover_us = pipeline_handover(**memory);
  const Result<double> short_stages = efficiency(**memory, 5ms, 300);
  const Result<double> long_stages = efficiency(**memory, 20ms, 75);
  const Result<double> idle = idle_percent(**memory);
  for (const Result<double>* result : {&handover_us, &short_stages, &long_stages, &idle}) {
    if (result->ok()) continue;
    std::fprintf(stderr, "handover: %s\n", result->status().message().c_str());
    return 1;
  }
  std::printf(
      "{\"futex_us\": %.3f, \"condition_queue_us\": %.3f, \"handover_us\": %.3f, "
      "\"efficiency_5ms\": %.4f, \"efficiency_20ms\": %.4f, \"idle_percent\": %.3f}\n",
      futex_us, condition_us, *handover_us, *short_stages, *long_stages, *idle);
  return 0;
}

}  // namespace
}  // namespace edgepipe

int main() { return edgepipe::run(); }
