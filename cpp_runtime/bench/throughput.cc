// Throughput of two stages, CPU time of an idle pipeline, and allocations per frame.
//
//   edgepipe-bench-throughput         prints one JSON object
//
// Two stages, each on its own core, compute for 5 ms and for 20 ms; efficiency is the rate relative
// to that of the slower stage alone. Both cores must be free, because the time that a stage waits
// for its core counts too.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "two_stages.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace edgepipe::bench {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

/// Frames per second relative to the slower stage alone; 1 is ideal.
Result<double> efficiency(DeviceMemory& memory, Clock::duration work, int frames) {
  const auto compute = [work](Views, Views) {
    const Clock::time_point end = Clock::now() + work;
    while (Clock::now() < end) {
    }
    return Status();
  };
  Result<std::unique_ptr<Pipeline>> pipeline = two_stages(memory, compute, compute);
  if (!pipeline.ok()) return pipeline.status();
  // The ring is kept full, so that a delayed stage can catch up.
  const int slots = static_cast<int>((*pipeline)->slots());
  int submitted = 0;
  for (int taken = 0; taken < frames; ++taken) {
    while (submitted < frames && submitted < taken + slots) {
      if (Status status = send(**pipeline); !status.ok()) return status;
      ++submitted;
    }
    if (auto frame = (*pipeline)->next(Clock::now() + 60s); !frame.ok()) return frame.status();
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

/// The share of one core in percent that a waiting pipeline uses, over two seconds.
Result<double> idle_percent(DeviceMemory& memory) {
  const auto nothing = [](Views, Views) { return Status(); };
  Result<std::unique_ptr<Pipeline>> pipeline = two_stages(memory, nothing, nothing);
  if (!pipeline.ok()) return pipeline.status();
  const double before = processor_seconds();
  std::this_thread::sleep_for(2s);
  return (processor_seconds() - before) / 2 * 100;
}

/// Calls of operator new in the process for each of 1,000 frames, after some to warm up.
Result<double> allocations_per_frame(DeviceMemory& memory) {
  const auto nothing = [](Views, Views) { return Status(); };
  Result<std::unique_ptr<Pipeline>> pipeline = two_stages(memory, nothing, nothing);
  if (!pipeline.ok()) return pipeline.status();
  constexpr int kFrames = 1000;
  long before = 0;
  for (int frame = -10; frame < kFrames; ++frame) {
    if (frame == 0) before = allocations;
    if (Status status = send(**pipeline); !status.ok()) return status;
    if (auto taken = (*pipeline)->next(Clock::now() + 60s); !taken.ok()) return taken.status();
  }
  return static_cast<double>(allocations - before) / kFrames;
}

int run() {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 1 << 20});
  if (!memory.ok()) return 1;
  const Result<double> short_stages = efficiency(**memory, 5ms, 100);
  const Result<double> long_stages = efficiency(**memory, 20ms, 25);
  const Result<double> idle = idle_percent(**memory);
  const Result<double> allocated = allocations_per_frame(**memory);
  for (const Result<double>* result : {&short_stages, &long_stages, &idle, &allocated}) {
    if (result->ok()) continue;
    std::fprintf(stderr, "throughput: %s\n", result->status().message().c_str());
    return 1;
  }
  std::printf(
      "{\"efficiency_5ms\": %.4f, \"efficiency_20ms\": %.4f, \"idle_percent\": %.3f, "
      "\"allocations_per_frame\": %.3f}\n",
      *short_stages, *long_stages, *idle, *allocated);
  return 0;
}

}  // namespace
}  // namespace edgepipe::bench

int main() { return edgepipe::bench::run(); }
