// The suites of edgepipe, run on your own memory, device and stage.
#include <memory>

#include "edgepipe/conformance/device_suite.h"
#include "edgepipe/conformance/memory_suite.h"
#include "edgepipe/conformance/stage_suite.h"
#include "own_device.h"
#include "own_memory.h"
#include "own_stage.h"

using namespace edgepipe::conformance;

class OwnMemoryUnderTest final : public MemoryUnderTest {
 public:
  edgepipe::DeviceMemory& memory() override { return memory_; }
  AcceleratorView& accelerator() override { return view_; }

 private:
  OwnMemory memory_;
  TranslatedView view_{memory_};  // what the accelerator sees is what translate gives
};

INSTANTIATE_TEST_SUITE_P(Own, MemoryConformance,
                         ::testing::Values(MemoryImplementation{
                             .name = "OwnMemory",
                             .create = [] { return std::make_unique<OwnMemoryUnderTest>(); }}),
                         name_of);

class OwnDeviceUnderTest final : public DeviceUnderTest {
 public:
  edgepipe::Device& device() override { return device_; }

 private:
  OwnMemory memory_;
  OwnDevice device_{edgepipe::Accelerator(), memory_};
};

INSTANTIATE_TEST_SUITE_P(Own, DeviceConformance,
                         ::testing::Values(DeviceImplementation{
                             .name = "OwnDevice",
                             .create = [] { return std::make_unique<OwnDeviceUnderTest>(); }}),
                         name_of);

class OwnStageUnderTest final : public StageUnderTest {
 public:
  edgepipe::Stage& stage() override { return stage_; }
  edgepipe::DeviceMemory& memory() override { return memory_; }
  std::vector<std::size_t> input_bytes() const override { return {100}; }
  std::vector<std::size_t> output_bytes() const override { return {100}; }
  Tensors expected(const Tensors& inputs) const override {
    Tensors outputs = inputs;
    for (std::byte& byte : outputs[0]) byte = ~byte;
    return outputs;
  }

 private:
  OwnMemory memory_;
  OwnStage stage_;
};

INSTANTIATE_TEST_SUITE_P(Own, StageConformance,
                         ::testing::Values(StageImplementation{
                             .name = "OwnStage",
                             .create = [] { return std::make_unique<OwnStageUnderTest>(); }}),
                         name_of);
