#include "edgepipe/conformance/stage_suite.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kAlignment = 64;  // what stage.h promises about a stage's buffers
constexpr std::byte kGuard{0xA7};

/// The buffers of one slot. Each has guards around it, and is aligned to exactly 64 bytes.
class SlotBuffers {
 public:
  explicit SlotBuffers(StageUnderTest& subject, std::byte guard = kGuard)
      : device_memory_(subject.memory()), guard_(guard) {
    for (const std::size_t bytes : subject.input_bytes()) add(bytes, inputs_);
    for (const std::size_t bytes : subject.output_bytes()) add(bytes, outputs_);
  }

  [[nodiscard]] std::span<const BufferView> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const BufferView> outputs() const { return outputs_; }

  void write(const Tensors& inputs) {
    for (std::size_t n = 0; n < inputs.size(); ++n) {
      std::ranges::copy(inputs[n], inputs_[n].data);
    }
  }
  void fill_outputs(std::byte value) {
    for (const BufferView& view : outputs_) std::ranges::fill(bytes_of(view), value);
  }
  [[nodiscard]] Tensors read_inputs() const { return copies(inputs_); }
  [[nodiscard]] Tensors read_outputs() const { return copies(outputs_); }

  /// True when nothing was written around any buffer, by CPU or accelerator.
  [[nodiscard]] bool guards_hold() {
    for (std::size_t n = 0; n < memory_.size(); ++n) {
      device_memory_.invalidate(memory_[n].view());
      const std::span all(memory_[n].data(), memory_[n].bytes());
      const auto is_guard = [&](std::byte byte) { return byte == guard_of(n); };
      if (!std::ranges::all_of(all.first(kAlignment), is_guard) ||
          !std::ranges::all_of(all.last(kAlignment), is_guard)) {
        return false;
      }
    }
    return true;
  }

 private:
  /// Different for each buffer, so that a copy of one buffer's guards does not pass for another's.
  [[nodiscard]] std::byte guard_of(std::size_t buffer) const {
    return static_cast<std::byte>(std::to_integer<std::size_t>(guard_) + buffer);
  }
  static std::span<std::byte> bytes_of(const BufferView& view) { return {view.data, view.bytes}; }
  static Tensors copies(const std::vector<BufferView>& views) {
    Tensors tensors;
    for (const BufferView& view : views) {
      tensors.emplace_back(view.data, view.data + view.bytes);
    }
    return tensors;
  }

  void add(std::size_t bytes, std::vector<BufferView>& views) {
    Buffer buffer = *device_memory_.allocate(bytes + 2 * kAlignment);
    std::ranges::fill(std::span(buffer.data(), buffer.bytes()), guard_of(memory_.size()));
    device_memory_.flush(buffer.view());
    views.push_back({.data = buffer.data() + kAlignment,
                     .device_address = buffer.device_address() + kAlignment,
                     .bytes = bytes});
    memory_.push_back(std::move(buffer));
  }

  DeviceMemory& device_memory_;
  const std::byte guard_;
  std::vector<Buffer> memory_;
  std::vector<BufferView> inputs_;
  std::vector<BufferView> outputs_;
};

::testing::AssertionResult same_tensors(const Tensors& found, const Tensors& expected) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << "the stage has " << found.size() << " tensors, expected() gives " << expected.size();
  }
  for (std::size_t n = 0; n < found.size(); ++n) {
    const ::testing::AssertionResult result = same(found[n], expected[n]);
    if (!result) {
      return ::testing::AssertionFailure() << "tensor " << n << ": " << result.message();
    }
  }
  return ::testing::AssertionSuccess();
}

Status bind(Stage& stage, std::size_t slot, const SlotBuffers& buffers) {
  return stage.bind(slot, buffers.inputs(), buffers.outputs());
}

/// Runs one frame in a slot that is bound to `buffers`.
void expect_frame(StageUnderTest& subject, std::size_t slot, SlotBuffers& buffers,
                  std::uint32_t seed) {
  const Tensors inputs = subject.inputs(seed);
  buffers.write(inputs);
  const Status status = subject.stage().run(slot);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(same_tensors(buffers.read_outputs(), subject.expected(inputs))) << "slot " << slot;
}

}  // namespace

Tensors StageUnderTest::inputs(std::uint32_t seed) const {
  std::mt19937 random(seed);
  Tensors tensors;
  for (const std::size_t bytes : input_bytes()) {
    std::vector<std::byte>& tensor = tensors.emplace_back(bytes);
    for (std::byte& byte : tensor) byte = static_cast<std::byte>(random() % 256);
  }
  return tensors;
}

// ---- what it is --------------------------------------------------------------------------------

TEST_P(StageConformance, HasANameThatStays) {
  const std::string name(stage().name());
  EXPECT_NE(name, "");
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  expect_frame(subject(), 0, buffers, 1);
  EXPECT_EQ(stage().name(), name);
}

// ---- bind and run ------------------------------------------------------------------------------

TEST_P(StageConformance, ComputesItsOutputsFromItsInputs) {
  SlotBuffers buffers(subject());
  const Status bound = bind(stage(), 0, buffers);
  ASSERT_TRUE(bound.ok()) << bound.message();
  for (std::uint32_t seed = 0; seed < 20; ++seed) expect_frame(subject(), 0, buffers, seed);
}

TEST_P(StageConformance, RunsEverySlotOnItsOwnBuffers) {
  constexpr std::size_t kSlots = 4;
  std::vector<std::unique_ptr<SlotBuffers>> slots;
  std::vector<Tensors> inputs;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    slots.push_back(std::make_unique<SlotBuffers>(subject()));
    ASSERT_TRUE(bind(stage(), slot, *slots[slot]).ok());
    inputs.push_back(subject().inputs(static_cast<std::uint32_t>(slot)));
    slots[slot]->write(inputs[slot]);
  }
  for (const std::size_t slot : {2, 0, 3, 1}) ASSERT_TRUE(stage().run(slot).ok());
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_TRUE(same_tensors(slots[slot]->read_outputs(), subject().expected(inputs[slot])))
        << "slot " << slot;
  }
}

TEST_P(StageConformance, SlotsAreBoundInAnyOrder) {
  SlotBuffers third(subject());
  SlotBuffers first(subject());
  ASSERT_TRUE(bind(stage(), 3, third).ok());
  ASSERT_TRUE(bind(stage(), 1, first).ok());
  expect_frame(subject(), 1, first, 1);
  expect_frame(subject(), 3, third, 2);
}

TEST_P(StageConformance, RefusesASlotThatWasNeverBound) {
  SlotBuffers buffers(subject());
  for (const std::size_t slot : {0, 7}) {
    EXPECT_EQ(stage().run(slot).code(), Code::kInvalidArgument) << "nothing is bound";
  }
  ASSERT_TRUE(bind(stage(), 2, buffers).ok());
  for (const std::size_t slot : {0, 1, 3, 7}) {
    const Status status = stage().run(slot);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << "slot " << slot << ", and 2 is bound";
    EXPECT_NE(status.message().find(std::to_string(slot)), std::string::npos)
        << "does not name slot " << slot << ": " << status.message();
  }
  expect_frame(subject(), 2, buffers, 1);
}

TEST_P(StageConformance, WritesItsOutputsInFull) {
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  for (const std::byte before : {std::byte{0}, std::byte{0xFF}}) {
    buffers.fill_outputs(before);
    expect_frame(subject(), 0, buffers, 1);
  }
}

TEST_P(StageConformance, LeavesItsInputsAlone) {
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  const Tensors inputs = subject().inputs(3);
  buffers.write(inputs);
  ASSERT_TRUE(stage().run(0).ok());
  EXPECT_TRUE(same_tensors(buffers.read_inputs(), inputs));
}

TEST_P(StageConformance, WritesNothingAroundItsBuffers) {
  for (const std::byte guard : {kGuard, std::byte{0}}) {
    SlotBuffers buffers(subject(), guard);
    ASSERT_TRUE(bind(stage(), guard == kGuard ? 0 : 1, buffers).ok());
    expect_frame(subject(), guard == kGuard ? 0 : 1, buffers, 1);
    EXPECT_TRUE(buffers.guards_hold()) << "it wrote before or behind one of its buffers";
  }
}

TEST_P(StageConformance, AllocatesNothingInARun) {
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  buffers.write(subject().inputs(1));
  for (int frame = 0; frame < 5; ++frame) {
    const long before = allocation_count();
    const bool ok = stage().run(0).ok();
    const long after = allocation_count();
    EXPECT_TRUE(ok);
    EXPECT_EQ(after, before) << "frame " << frame;
  }
}

// ---- threads -----------------------------------------------------------------------------------

TEST_P(StageConformance, RunsOnAnotherThreadThanItWasBoundOn) {
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    std::thread([&] { expect_frame(subject(), 0, buffers, seed); }).join();
  }
}

// ---- errors ------------------------------------------------------------------------------------

TEST_P(StageConformance, ARepeatableFrameGivesTheSameWhenRunAgain) {
  if (!stage().repeatable()) return;  // it promises nothing
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  const Tensors inputs = subject().inputs(1);
  buffers.write(inputs);
  for (const std::byte left : {std::byte{0x11}, std::byte{0xEE}}) {
    buffers.fill_outputs(left);  // by a run that did not end
    ASSERT_TRUE(stage().run(0).ok());
    EXPECT_TRUE(same_tensors(buffers.read_outputs(), subject().expected(inputs)));
  }
}

TEST_P(StageConformance, AFrameThatFailsIsAnErrorAndTheNextOneRuns) {
  const std::optional<Tensors> failing = subject().failing_inputs();
  if (!failing) GTEST_SKIP() << "no inputs make a run of this stage fail";
  SlotBuffers buffers(subject());
  ASSERT_TRUE(bind(stage(), 0, buffers).ok());
  expect_frame(subject(), 0, buffers, 1);
  buffers.write(*failing);
  const Status status = stage().run(0);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message(), "");
  EXPECT_TRUE(buffers.guards_hold()) << "it wrote before or behind one of its buffers";
  expect_frame(subject(), 0, buffers, 2);
}

}  // namespace edgepipe::conformance
