// The frame path allocates nothing: the test program replaces operator new and counts.
#include <gtest/gtest.h>

#include "edgepipe/conformance/allocation_counter.h"
#include "support/pipeline_test_stages.h"

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
        Pipeline::Options{.crews = {{.name = "crew", .stages = {0, 1}, .threads = {{}, {}}}}},
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
    const long before = conformance::allocation_count();
    run(1000);
    EXPECT_EQ(conformance::allocation_count() - before, 0);
  }
}

}  // namespace
}  // namespace edgepipe
