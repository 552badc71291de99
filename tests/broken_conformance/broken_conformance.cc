// Implementations that break one promise each, for test_conformance_package.py: the suites must
// find them.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "edgepipe/conformance/device_suite.h"
#include "edgepipe/conformance/memory_suite.h"
#include "edgepipe/conformance/stage_suite.h"
#include "own_device.h"
#include "own_memory.h"

using namespace edgepipe::conformance;
using edgepipe::Buffer;
using edgepipe::BufferView;
using edgepipe::Result;
using edgepipe::Status;
using edgepipe::Submission;

namespace {

/// A device that passes every run on, changed.
class ChangedDevice final : public edgepipe::Device {
 public:
  using Run = Status (*)(OwnDevice& device, Submission submission);
  explicit ChangedDevice(Run run) : run_(run) {}
  const edgepipe::Accelerator& accelerator() const override { return device_.accelerator(); }
  edgepipe::DeviceMemory& memory() override { return memory_; }

 private:
  Status run_checked(const Submission& submission) override { return run_(device_, submission); }

  OwnMemory memory_;
  OwnDevice device_{edgepipe::Accelerator(), memory_};
  const Run run_;
};

Status forgets_the_time_limit(OwnDevice& device, Submission submission) {
  submission.time_limit = std::chrono::hours(1);
  return device.run(submission);
}

Status keeps_the_first_program(OwnDevice& device, Submission submission) {
  static std::uint64_t address = 0;
  static std::vector<std::byte> kept;
  std::byte* const words = *device.memory().translate(submission.address, 16 * submission.count);
  if (submission.address != address) {
    address = submission.address;
    kept.assign(words, words + 16 * submission.count);
  }
  if (kept.size() == 16 * submission.count) std::copy(kept.begin(), kept.end(), words);
  return device.run(submission);
}

class ChangedDeviceUnderTest final : public DeviceUnderTest {
 public:
  explicit ChangedDeviceUnderTest(ChangedDevice::Run run) : device_(run) {}
  edgepipe::Device& device() override { return device_; }

 private:
  ChangedDevice device_;
};

DeviceImplementation changed(const char* name, ChangedDevice::Run run) {
  return {.name = name, .create = [run] { return std::make_unique<ChangedDeviceUnderTest>(run); }};
}

Status changes_nothing(OwnDevice& device, Submission submission) { return device.run(submission); }

/// A memory whose allocations keep what was in them.
class DirtyMemory final : public edgepipe::DeviceMemory {
 public:
  Result<Buffer> allocate(std::size_t bytes) override {
    Result<Buffer> buffer = memory_.allocate(bytes);
    if (buffer.ok()) buffer->data()[bytes / 2] = std::byte{1};
    return buffer;
  }
  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override {
    return memory_.translate(address, bytes);
  }
  std::uint64_t generation() const override { return memory_.generation(); }
  void flush(const BufferView&) override {}
  void invalidate(const BufferView&) override {}

 private:
  void release(const BufferView&) noexcept override {}

  OwnMemory memory_;
};

class DirtyMemoryUnderTest final : public MemoryUnderTest {
 public:
  edgepipe::DeviceMemory& memory() override { return memory_; }
  AcceleratorView& accelerator() override { return view_; }

 private:
  DirtyMemory memory_;
  TranslatedView view_{memory_};
};

/// A stage that writes a byte more than its output has.
class TooFarStage final : public edgepipe::Stage {
 public:
  std::string_view name() const override { return "too far"; }
  Status bind(std::size_t, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override {
    input_ = inputs[0];
    output_ = outputs[0];
    return {};
  }
  Status run(std::size_t) override {
    for (std::size_t n = 0; n <= output_.bytes; ++n) output_.data[n] = input_.data[n];
    return {};
  }

 private:
  BufferView input_;
  BufferView output_;
};

class TooFarStageUnderTest final : public StageUnderTest {
 public:
  edgepipe::Stage& stage() override { return stage_; }
  edgepipe::DeviceMemory& memory() override { return memory_; }
  std::vector<std::size_t> input_bytes() const override { return {100}; }
  std::vector<std::size_t> output_bytes() const override { return {100}; }
  Tensors expected(const Tensors& inputs) const override { return inputs; }

 private:
  OwnMemory memory_;
  TooFarStage stage_;
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Broken, DeviceConformance,
    ::testing::Values(
        changed("ForgetsTheTimeLimit", forgets_the_time_limit),
        changed("KeepsTheFirstProgram", keeps_the_first_program),
        DeviceImplementation{
            .name = "KeepsWhatItSaysItBreaks",
            .create = [] { return std::make_unique<ChangedDeviceUnderTest>(changes_nothing); },
            .deviations = {{"MultipliesInputAndWeights", "it cannot multiply"}}},
        DeviceImplementation{
            .name = "IsNotHere",
            .create = [] { return Status(edgepipe::Code::kNotFound, "no such board"); }}),
    name_of);

INSTANTIATE_TEST_SUITE_P(Broken, MemoryConformance,
                         ::testing::Values(MemoryImplementation{
                             .name = "IsDirty",
                             .create = [] { return std::make_unique<DirtyMemoryUnderTest>(); }}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Broken, StageConformance,
                         ::testing::Values(StageImplementation{
                             .name = "WritesTooFar",
                             .create = [] { return std::make_unique<TooFarStageUnderTest>(); }}),
                         name_of);
