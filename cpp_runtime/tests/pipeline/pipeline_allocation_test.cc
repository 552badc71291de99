// The frame path allocates nothing: the test program replaces operator new and counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/allocation_counter.h"
#include "support/pipeline_test_stages.h"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                        : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new[](std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

long edgepipe::testing::allocation_count() { return allocations; }

namespace edgepipe {
namespace {

using testing::affine;
using testing::soon;
using testing::submit;

TEST(PipelineAllocationTest, NoFrameAllocates) {
  // Traced with fewer spans than there are, so that old ones are overwritten.
  for (const Pipeline::Options& options :
       {Pipeline::Options{}, Pipeline::Options{.mode = Pipeline::Mode::kSerial},
        Pipeline::Options{.trace_spans = 500},
        Pipeline::Options{.spin = std::chrono::microseconds(50)}}) {
    const std::unique_ptr<HostMemory> memory = testing::host_memory();
    Result<std::unique_ptr<Pipeline>> made =
        Pipeline::create(testing::chain({affine(2), affine(3)}), *memory, options);
    ASSERT_TRUE(made.ok());
    Pipeline& pipeline = **made;
    const auto run = [&](int frames) {
      for (int i = 0; i < frames; ++i) {
        ASSERT_TRUE(submit(pipeline, i).ok());
        if (i % 2 == 1) {  // two frames at a time, so that handovers overlap
          ASSERT_TRUE(pipeline.next(soon()).ok());
          ASSERT_TRUE(pipeline.next(soon()).ok());
        }
      }
    };
    run(4);
    const long before = allocations;
    run(1000);
    EXPECT_EQ(allocations - before, 0);
  }
}

}  // namespace
}  // namespace edgepipe
