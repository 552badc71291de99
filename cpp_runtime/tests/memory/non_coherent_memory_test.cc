// Cache maintenance on memory with two separate copies.
#include "memory/non_coherent_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "edgepipe/pipeline.h"
#include "simulator/simulator.h"
#include "stage/vta_stage.h"
#include "support/pipeline_test_stages.h"
#include "support/recording_memory.h"
#include "support/vta_stage_files.h"

namespace edgepipe {
namespace {

using testing::Buffers;
using ::testing::HasSubstr;
using testing::RecordingMemory;
using testing::soon;

constexpr std::size_t kBytes = 16;
constexpr std::size_t kSlots = 2;
constexpr int kFrames = 5;

std::unique_ptr<NonCoherentMemory> two_copies() {
  return *NonCoherentMemory::create({.arena_bytes = std::size_t{1} << 20});
}

TEST(NonCoherentMemoryTest, EachSideKeepsItsBytesUntilARangeIsMovedInADirection) {
  const auto memory = two_copies();
  const Buffer buffer = *memory->allocate(8);
  std::byte* const device = *memory->device_side().translate(buffer.device_address(), 8);
  ASSERT_NE(device, buffer.data());
  std::memset(buffer.data(), 1, 8);
  EXPECT_EQ(device[0], std::byte{0}) << "nothing is flushed";
  BufferView part = buffer.view();
  part.data += 2;
  part.device_address += 2;
  part.bytes = 3;
  memory->flush(part);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(device), 8), std::string("\0\0\1\1\1\0\0\0", 8));
  std::memset(device, 7, 8);
  EXPECT_EQ(buffer.data()[3], std::byte{1}) << "nothing is invalidated";
  memory->invalidate(part);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(buffer.data()), 8), "\1\1\7\7\7\1\1\1");
}

/// The simulator on the accelerator's view of a memory; the stages use the CPU's view.
class TwoSidedSimulator final : public Device {
 public:
  TwoSidedSimulator(DeviceMemory& cpu_side, DeviceMemory& device_side)
      : cpu_side_(cpu_side), simulator_(*Simulator::create({}, device_side)) {}
  [[nodiscard]] const Accelerator& accelerator() const override {
    return simulator_->accelerator();
  }
  [[nodiscard]] DeviceMemory& memory() override { return cpu_side_; }

 private:
  Status run_checked(const Submission& submission) override {
    Submission there = submission;
    there.checked = nullptr;  // it leads to the CPU's copies
    return simulator_->run(there);
  }

  DeviceMemory& cpu_side_;
  std::unique_ptr<Simulator> simulator_;
};

/// A CPU stage, a VTA stage (y = 3 * x) and a CPU stage: all kinds of handovers.
class CacheMaintenanceTest : public ::testing::Test {
 protected:
  /// Runs kFrames frames; OK if every result is correct.
  Status run() {
    recording_ = std::make_unique<RecordingMemory>(*memory_);
    recording_->cut = cut_;
    TwoSidedSimulator device(*recording_, memory_->device_side());
    Result<std::unique_ptr<VtaStage>> body =
        VtaStage::create(device, *testing::VtaStageFiles().parse(),
                         {.name = "body", .inputs = {"x"}, .outputs = {"y"}});
    if (!body.ok()) return body.status();
    const auto copy = [](Buffers in, Buffers out) {
      std::memcpy(out[0].data, in[0].data, kBytes);
      return Status();
    };
    Graph graph;
    for (const char* name : {"in", "x", "y", "out"}) {
      TensorSpec tensor;
      tensor.name = name;
      tensor.bytes = kBytes;
      graph.tensors.push_back(std::move(tensor));
    }
    graph.inputs = {0};
    graph.outputs = {3};
    graph.nodes.push_back({std::make_unique<FunctionStage>("first", copy), {0}, {1}});
    graph.nodes.push_back({*std::move(body), {1}, {2}});
    graph.nodes.push_back({std::make_unique<FunctionStage>("last", copy), {2}, {3}});
    Result<std::unique_ptr<Pipeline>> pipeline =
        Pipeline::create(std::move(graph), *recording_, {.slots = kSlots});
    if (!pipeline.ok()) return pipeline.status();
    created_ = *recording_;
    for (int frame = 0; frame < kFrames; ++frame) {
      if (Status status = run_frame(**pipeline, frame); !status.ok()) return status;
    }
    return {};
  }

  static Status run_frame(Pipeline& pipeline, int frame) {
    std::array<std::int8_t, kBytes> input{};
    for (std::size_t n = 0; n < kBytes; ++n) {
      input[n] = static_cast<std::int8_t>(1 + frame + static_cast<int>(n));
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span(input));
    Result<std::uint64_t> id = pipeline.submit(std::span(&bytes, 1), soon());
    if (!id.ok()) return id.status();
    Result<OutputFrame> result = pipeline.next(soon());
    if (!result.ok()) return result.status();
    for (std::size_t n = 0; n < kBytes; ++n) {
      if (std::to_integer<int>(result->output(0)[n]) != 3 * input[n]) {
        return {Code::kCorrupt, "frame " + std::to_string(frame) + " is wrong"};
      }
    }
    return {};
  }

  std::unique_ptr<NonCoherentMemory> memory_ = two_copies();
  std::unique_ptr<RecordingMemory> recording_;
  std::optional<RecordingMemory::Cut> cut_;
  struct Counts {
    Counts() = default;
    explicit(false) Counts(const RecordingMemory& m)
        : allocations(m.allocations), flushes(m.flushes), invalidates(m.invalidates) {}
    std::size_t allocations = 0;
    std::size_t flushes = 0;
    std::size_t invalidates = 0;
  } created_;  // after the pipeline was created
};

TEST_F(CacheMaintenanceTest, APipelineIsBitEqualOnMemoryWithoutCoherence) {
  const Status status = run();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(CacheMaintenanceTest, LeavingOutAnyOneCallBreaksIt) {
  ASSERT_TRUE(run().ok());
  const std::size_t calls = recording_->flushes + recording_->invalidates;
  ASSERT_GE(calls, std::size_t{2} * kFrames);
  for (std::size_t call = 0; call < calls; ++call) {
    memory_ = two_copies();
    cut_ = {.call = call, .bytes = [](std::size_t) { return std::size_t{0}; }};
    EXPECT_FALSE(run().ok()) << "call " << call;
  }
}

TEST_F(CacheMaintenanceTest, CuttingAnyOneRangeShortBreaksIt) {
  ASSERT_TRUE(run().ok());
  const std::size_t calls = recording_->flushes + recording_->invalidates;
  for (std::size_t call = 0; call < calls; ++call) {
    memory_ = two_copies();
    cut_ = {.call = call, .bytes = [](std::size_t bytes) { return bytes / 2; }};
    EXPECT_FALSE(run().ok()) << "call " << call;
  }
}

TEST_F(CacheMaintenanceTest, WeightsAndProgramsAreUploadedOnceAndStay) {
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(created_.flushes, 1 + kSlots) << "the constants, and the program of each slot";
  EXPECT_EQ(created_.invalidates, 0u);
  EXPECT_EQ(recording_->allocations, created_.allocations) << "no frame allocates device memory";
  EXPECT_EQ(recording_->flushes - created_.flushes, std::size_t{kFrames}) << "one input a frame";
  EXPECT_EQ(recording_->invalidates, std::size_t{kFrames}) << "one output a frame";
}

TEST_F(CacheMaintenanceTest, AnAllocatorThatFailsAtStartIsAnErrorWithItsPlace) {
  ASSERT_TRUE(run().ok());
  const std::size_t needed = recording_->allocations;
  for (std::size_t count = 0; count < needed; ++count) {
    RecordingMemory failing(*memory_);
    failing.fail_after = count;
    TwoSidedSimulator device(failing, memory_->device_side());
    Result<std::unique_ptr<VtaStage>> body =
        VtaStage::create(device, *testing::VtaStageFiles().parse(),
                         {.name = "body", .inputs = {"x"}, .outputs = {"y"}});
    Status status = body.status();
    if (body.ok()) {
      Graph graph;
      graph.tensors.resize(2);
      graph.tensors[0].name = "x";
      graph.tensors[1].name = "y";
      graph.tensors[0].bytes = graph.tensors[1].bytes = kBytes;
      graph.inputs = {0};
      graph.outputs = {1};
      graph.nodes.push_back({*std::move(body), {0}, {1}});
      status = Pipeline::create(std::move(graph), failing, {.slots = kSlots}).status();
    }
    if (status.ok()) {
      EXPECT_GE(count, needed - 2 * kSlots) << "the graph has two tensors less";
      continue;
    }
    EXPECT_EQ(status.code(), Code::kOutOfMemory) << count;
    EXPECT_THAT(status.message(), ::testing::AnyOf(HasSubstr("body"), HasSubstr("tensor '")));
  }
}

}  // namespace
}  // namespace edgepipe
