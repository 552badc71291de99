// The cost of a hop from one unit to the other in a network of 60 stages, run by two crews.
//
//   edgepipe-bench-hops         prints one JSON object
//
// The stages alternate between the crews, each of one thread on its own core. First they do nothing
// but count, so that a frame's time is that of 60 hops: with one frame in flight, when each hop
// wakes a thread, and with a full ring. No frame may allocate. Then they compute, and the rate is
// compared with that of the busier crew alone; both cores must be free for that.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "edgepipe/conformance/allocation_counter.h"
#include "two_stages.h"

namespace edgepipe::bench {
namespace {

using namespace std::chrono_literals;
using Views = FunctionStage::Views;

constexpr std::size_t kStages = 60;
constexpr int kFrames = 1000;

Result<std::unique_ptr<Pipeline>> alternating(DeviceMemory& memory, Clock::duration even,
                                              Clock::duration odd) {
  Graph graph;
  Pipeline::Options options;
  options.slots = 6;
  options.crews = {{.name = "even", .stages = {}, .threads = {{.cores = {core_of(0)}}}},
                   {.name = "odd", .stages = {}, .threads = {{.cores = {core_of(1)}}}}};
  const auto add_tensor = [&graph](std::size_t index) {
    graph.tensors.push_back(
        {.name = std::to_string(index), .dtype = "", .shape = {}, .layout = "", .bytes = 8});
  };
  add_tensor(0);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const Clock::duration work = stage % 2 == 0 ? even : odd;
    const auto count = [work](Views in, Views out) {
      const Clock::time_point end = Clock::now() + work;
      std::uint64_t value = 0;
      std::memcpy(&value, in[0].data, sizeof(value));
      ++value;
      std::memcpy(out[0].data, &value, sizeof(value));
      while (work.count() > 0 && Clock::now() < end) {
      }
      return Status();
    };
    add_tensor(stage + 1);
    graph.nodes.push_back({.stage = std::make_unique<FunctionStage>(std::to_string(stage), count),
                           .reads = {stage},
                           .writes = {stage + 1}});
    options.crews[stage % 2].stages.push_back(stage);
  }
  graph.inputs = {0};
  graph.outputs = {kStages};
  return Pipeline::create(std::move(graph), memory, options);
}

/// The time of a frame, with `in_flight` frames in the pipeline.
Result<Clock::duration> frame_time(Pipeline& pipeline, int frames, int in_flight) {
  const Clock::time_point begin = Clock::now();
  int submitted = 0;
  for (int taken = 0; taken < frames; ++taken) {
    while (submitted < frames && submitted < taken + in_flight) {
      if (Status status = send(pipeline); !status.ok()) return status;
      ++submitted;
    }
    Result<OutputFrame> frame = pipeline.next(Clock::now() + 60s);
    if (!frame.ok()) return frame.status();
    std::uint64_t value = 0;
    std::memcpy(&value, frame->output(0).data(), sizeof(value));
    if (value != kStages) return Status(Code::kInternal, "a stage was left out");
  }
  return (Clock::now() - begin) / frames;
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// What a hop takes, and the calls of operator new in the process for each frame.
struct HopCost {
  double us;
  double allocations_per_frame;
};

Result<HopCost> hop_cost(DeviceMemory& memory, int in_flight) {
  Result<std::unique_ptr<Pipeline>> pipeline = alternating(memory, 0us, 0us);
  if (!pipeline.ok()) return pipeline.status();
  if (auto warm = frame_time(**pipeline, 20, in_flight); !warm.ok()) return warm.status();
  const long before = conformance::allocation_count();
  const Result<Clock::duration> time = frame_time(**pipeline, kFrames, in_flight);
  const long allocations = conformance::allocation_count() - before;
  if (!time.ok()) return time.status();
  return HopCost{.us = microseconds(*time) / static_cast<double>(kStages),
                 .allocations_per_frame = static_cast<double>(allocations) / kFrames};
}

/// The frame rate relative to the busier crew alone, for stages of 100 and 80 us.
Result<double> efficiency(DeviceMemory& memory) {
  constexpr Clock::duration kBusier = 100us;
  Result<std::unique_ptr<Pipeline>> pipeline = alternating(memory, kBusier, 80us);
  if (!pipeline.ok()) return pipeline.status();
  const Result<Clock::duration> time = frame_time(**pipeline, kFrames / 5, 6);
  if (!time.ok()) return time.status();
  return microseconds(kBusier * kStages / 2) / microseconds(*time);
}

int run() {
  Result<std::unique_ptr<HostMemory>> memory = HostMemory::create({.arena_bytes = 64 << 20});
  if (!memory.ok()) return 1;
  const Result<HopCost> alone = hop_cost(**memory, 1);
  const Result<HopCost> full = hop_cost(**memory, 6);
  const Result<double> rate = efficiency(**memory);
  for (const Status& status : {alone.status(), full.status(), rate.status()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "hops: %s\n", status.message().c_str());
    return 1;
  }
  std::printf(
      "{\"hop_alone_us\": %.2f, \"hop_full_us\": %.2f, \"crew_efficiency\": %.4f, "
      "\"allocations_per_frame\": %.3f}\n",
      alone->us, full->us, *rate,
      std::max(alone->allocations_per_frame, full->allocations_per_frame));
  return 0;
}

}  // namespace
}  // namespace edgepipe::bench

int main() { return edgepipe::bench::run(); }
