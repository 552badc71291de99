// Many frames through a three-stage pipeline with random delays and injected faults.
//
//   edgepipe-bench-soak [FRAMES]      prints one JSON object; exits with 1 if a count is wrong
//
// Faults end a pipeline, as in the field: a stage throws, runs out of memory, reports an error, or
// hangs until the pipeline is cancelled. The pipeline is then restarted and continues. The reader
// is slow at times. Checked over all restarts: results are in order and correct, submitted =
// delivered + dropped + failed, memory does not grow.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "edgepipe/pipeline.h"
#include "edgepipe/stage.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

constexpr auto kStall = 100ms;  // the reader treats a longer wait as a hang
constexpr auto kNever = 60s;

struct Faults {
  std::atomic<std::uint64_t> thrown{0};
  std::atomic<std::uint64_t> out_of_memory{0};
  std::atomic<std::uint64_t> reported{0};
  std::atomic<std::uint64_t> hung{0};
  std::atomic<bool> hanging{false};  // a stage waits for `released`
  std::atomic<bool> released{false};
};

struct Totals {
  std::uint64_t submitted = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
  std::uint64_t failed = 0;
  std::uint64_t wrong = 0;  // results out of order or of another frame
  std::uint64_t unaccounted = 0;
  std::uint64_t lives = 0;
};

std::uint64_t number(const std::byte* data) {
  std::uint64_t found = 0;
  std::memcpy(&found, data, sizeof(found));
  return found;
}

/// A stage that adds one, with a random delay; `faulty` stages fail about once in 2,000 frames.
FunctionStage::Body stage_body(unsigned seed, bool faulty, Faults& faults) {
  return [random = std::minstd_rand(seed), faulty, &faults](Views in, Views out) mutable {
    const std::uint64_t value = number(in[0].data) + 1;
    std::memcpy(out[0].data, &value, sizeof(value));
    if (random() % 16 == 0) {
      const Clock::time_point end = Clock::now() + std::chrono::microseconds(random() % 20);
      while (Clock::now() < end) {
      }
    }
    if (!faulty || random() % 2000 != 0) return Status();
    const auto kind = random() % 32;
    if (kind == 0) {
      ++faults.hung;
      faults.hanging = true;
      faults.released.wait(false);
      return Status();
    }
    if (kind < 12) {
      ++faults.thrown;
      throw std::runtime_error("injected");
    }
    if (kind < 22) {
      ++faults.out_of_memory;
      throw std::bad_alloc();
    }
    ++faults.reported;
    return Status(Code::kDevice, "injected");
  };
}

Graph three_stages(Faults& faults) {
  Graph graph;
  graph.tensors.push_back({.name = "t0", .dtype = "", .shape = {}, .layout = "", .bytes = 8});
  for (std::size_t index = 0; index < 3; ++index) {
    const std::string name = std::to_string(index + 1);
    graph.tensors.push_back(
        {.name = "t" + name, .dtype = "", .shape = {}, .layout = "", .bytes = 8});
    graph.nodes.push_back(
        {.stage = std::make_unique<FunctionStage>(
             "stage" + name, stage_body(static_cast<unsigned>(index) + 1, index == 1, faults)),
         .reads = {index},
         .writes = {index + 1}});
  }
  graph.inputs = {0};
  graph.outputs = {3};
  return graph;
}

/// Sends numbers starting at `first` until the pipeline ends or `last` is reached.
void produce(Pipeline& pipeline, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t value = first; value < last; ++value) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
    if (!pipeline.submit(std::span(&bytes, 1), Clock::now() + kNever).ok()) return;
  }
  static_cast<void>(pipeline.stop(Clock::now() + kNever));
}

/// Takes results until the pipeline ends, and cancels it if a stage hangs.
void consume(Pipeline& pipeline, std::uint64_t first, Faults& faults, std::minstd_rand& random,
             Totals& totals) {
  for (std::uint64_t expected = 0;;) {
    const Result<OutputFrame> frame = pipeline.next(Clock::now() + kStall);
    if (!frame.ok()) {
      if (frame.status().code() != Code::kDeadline) return;
      if (!faults.hanging) continue;  // the machine is busy, no stage hangs
      pipeline.cancel();
      return;
    }
    if (frame->id() != expected || number(frame->output(0).data()) != first + expected + 3) {
      ++totals.wrong;
    }
    ++expected;
    if (random() % 5000 == 0) std::this_thread::sleep_for(1ms);
  }
}

/// One run from start or restart to an end; adds up the outcomes of the frames.
void live(Pipeline& pipeline, std::uint64_t frames, Faults& faults, std::minstd_rand& random,
          Totals& totals) {
  const std::uint64_t first = totals.submitted;
  std::thread producer([&] { produce(pipeline, first, frames); });
  consume(pipeline, first, faults, random, totals);
  faults.released = true;
  faults.released.notify_all();
  producer.join();
  // A stage that hung still has to return; the counts are final once all have returned.
  static_cast<void>(pipeline.stop(Clock::now() + kNever));
  faults.released = false;
  faults.hanging = false;
  const PipelineStatistics statistics = pipeline.statistics();
  totals.submitted += statistics.submitted;
  totals.delivered += statistics.delivered;
  totals.dropped += statistics.dropped;
  totals.failed += statistics.failed;
  totals.unaccounted += statistics.in_flight;
  ++totals.lives;
}

long resident_kb() {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  file >> pages >> pages;
  return pages * 4;
}

int run(std::uint64_t frames) {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 1 << 20});
  Pipeline::Options options;
  options.slots = 8;
  Faults faults;
  Result<std::unique_ptr<Pipeline>> pipeline =
      memory.ok() ? Pipeline::create(three_stages(faults), **memory, options)
                  : Result<std::unique_ptr<Pipeline>>(memory.status());
  if (!pipeline.ok()) {
    std::fprintf(stderr, "soak: %s\n", pipeline.status().message().c_str());
    return 1;
  }
  const Clock::time_point started = Clock::now();
  std::minstd_rand random(7);
  Totals totals;
  long settled_kb = 0;
  while (totals.submitted < frames) {
    live(**pipeline, frames, faults, random, totals);
    if (settled_kb == 0 && totals.submitted >= frames / 10) settled_kb = resident_kb();
    if (Status status = (*pipeline)->restart(Clock::now() + kNever); !status.ok()) {
      std::fprintf(stderr, "soak: %s\n", status.message().c_str());
      return 1;
    }
  }
  const long growth_kb = resident_kb() - settled_kb;
  const std::uint64_t accounted = totals.delivered + totals.dropped + totals.failed;
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  std::printf(
      "{\"submitted\": %llu, \"delivered\": %llu, \"dropped\": %llu, \"failed\": %llu, "
      "\"unaccounted\": %lld, \"wrong\": %llu, \"lives\": %llu, \"thrown\": %llu, "
      "\"out_of_memory\": %llu, \"reported\": %llu, \"hung\": %llu, \"memory_growth_kb\": %ld, "
      "\"seconds\": %.3f}\n",
      static_cast<unsigned long long>(totals.submitted),
      static_cast<unsigned long long>(totals.delivered),
      static_cast<unsigned long long>(totals.dropped),
      static_cast<unsigned long long>(totals.failed),
      static_cast<long long>(totals.submitted - accounted + totals.unaccounted),
      static_cast<unsigned long long>(totals.wrong), static_cast<unsigned long long>(totals.lives),
      static_cast<unsigned long long>(faults.thrown.load()),
      static_cast<unsigned long long>(faults.out_of_memory.load()),
      static_cast<unsigned long long>(faults.reported.load()),
      static_cast<unsigned long long>(faults.hung.load()), growth_kb, seconds);
  return totals.submitted == accounted && totals.unaccounted == 0 && totals.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace edgepipe

int main(int argc, char** argv) {
  const std::uint64_t frames = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  return edgepipe::run(frames);
}
