// edgepipe-count-allocations: counts the malloc calls of a bundle's frames in a warm pipeline.
//
//   edgepipe-count-allocations BUNDLE FRAMES
//
// Runs the golden input, pipelined and then serial, with the VTA on the simulator; every output is
// compared. The counts of both runs are printed in one line.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "edgepipe/session.h"
#include "session/golden.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// glibc's functions under their internal names; this counts all allocations, including operator
// new.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = aligned_alloc(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace edgepipe {
namespace {

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(60); }

/// Runs `frames` golden frames, two in flight at a time.
Status run(Pipeline& pipeline, const GoldenCheck& golden, long frames) {
  for (long frame = 0; frame < frames; frame += 2) {
    for (int each = 0; each < 2; ++each) {
      Result<InputFrame> input = pipeline.acquire(soon());
      if (!input.ok()) return input.status();
      golden.fill(*input);
      if (Result<std::uint64_t> sent = pipeline.submit(std::move(*input)); !sent.ok()) {
        return sent.status();
      }
    }
    for (int each = 0; each < 2; ++each) {
      Result<OutputFrame> output = pipeline.next(soon());
      if (!output.ok()) return output.status();
      if (Status status = golden.compare(*output); !status.ok()) return status;
    }
  }
  return {};
}

Result<long> count(const char* bundle, long frames, Pipeline::Mode mode) {
  Session::Options options;
  options.device.kind = "simulator";
  options.pipeline.mode = mode;
  options.pipeline.pinning = Pipeline::Pinning::kPreferred;
  Result<std::unique_ptr<Session>> session = Session::open(bundle, options);
  if (!session.ok()) return session.status();
  Result<GoldenCheck> golden = GoldenCheck::create((*session)->bundle());
  if (!golden.ok()) return golden.status();
  Pipeline& pipeline = (*session)->pipeline();
  const long every_slot = 2 * static_cast<long>(pipeline.slots());
  if (Status status = run(pipeline, *golden, every_slot); !status.ok()) return status;
  const long before = allocations;
  if (Status status = run(pipeline, *golden, frames); !status.ok()) return status;
  return allocations - before;
}

}  // namespace
}  // namespace edgepipe

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::array<long, 2> counts{};
  const std::array modes = {edgepipe::Pipeline::Mode::kPipelined,
                            edgepipe::Pipeline::Mode::kSerial};
  for (std::size_t mode = 0; mode < modes.size(); ++mode) {
    edgepipe::Result<long> counted =
        edgepipe::count(argv[1], std::strtol(argv[2], nullptr, 10), modes[mode]);
    if (!counted.ok()) {
      std::fprintf(stderr, "%s\n", counted.status().message().c_str());
      return 1;
    }
    counts[mode] = *counted;
  }
  std::printf("%ld %ld\n", counts[0], counts[1]);
  return 0;
}
