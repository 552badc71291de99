// Every device of this repository that can run in this process, against the promises of device.h.
#include <memory>
#include <utility>
#include <vector>

#include "device/uio_device.h"
#include "edgepipe/conformance/device_suite.h"
#include "emulation/model_device.h"
#include "emulation/timed_device.h"
#include "memory/non_coherent_memory.h"
#include "simulator/simulator.h"
#include "support/accelerators.h"
#include "support/emulated_fpga.h"
#include "support/foreign_test_driver.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kDeviceArenaBytes = std::size_t{16} << 20;

/// A device and the parts that it borrows, which are destroyed after it.
template <typename... Parts>
class Owned final : public DeviceUnderTest {
 public:
  explicit Owned(std::unique_ptr<Device> device, std::unique_ptr<Parts>... parts)
      : parts_(std::move(parts)...), device_(std::move(device)) {}
  [[nodiscard]] Device& device() override { return *device_; }

 private:
  std::tuple<std::unique_ptr<Parts>...> parts_;
  std::unique_ptr<Device> device_;
};

using CreatedDevice = Created<DeviceUnderTest>;

template <typename... Parts>
CreatedDevice owned(std::unique_ptr<Device> device, std::unique_ptr<Parts>... parts) {
  return std::make_unique<Owned<Parts...>>(std::move(device), std::move(parts)...);
}

CreatedDevice simulator(const Accelerator& accelerator) {
  auto memory = *HostMemory::create({.arena_bytes = kDeviceArenaBytes});
  std::unique_ptr<Device> device = *Simulator::create(accelerator, *memory);
  return owned(std::move(device), std::move(memory));
}

CreatedDevice timed() {
  auto memory = *HostMemory::create({.arena_bytes = kDeviceArenaBytes});
  auto device = std::make_unique<TimedDevice>(*Simulator::create({}, *memory));
  return owned(std::move(device), std::move(memory));
}

CreatedDevice model(const ModelDevice::Options& options) {
  auto memory = *NonCoherentMemory::create({.arena_bytes = kDeviceArenaBytes});
  std::unique_ptr<Device> device =
      *ModelDevice::create({}, *memory, memory->device_side(), options);
  return owned(std::move(device), std::move(memory));
}

/// The board's own driver and buffers on files; see emulated_fpga.h.
CreatedDevice uio() {
  auto fpga = std::make_unique<testing::EmulatedFpga>();
  auto memory = *open_uio_memory(fpga->options());
  std::unique_ptr<Device> device = *open_uio_device({}, *memory, fpga->options());
  return owned(std::move(device), std::move(memory), std::move(fpga));
}

/// The same with another user of the accelerator and of the buffer. It has opened both, too.
CreatedDevice uio_shared() {
  auto fpga = std::make_unique<testing::EmulatedFpga>();
  UioOptions options = fpga->options();
  options.shared = true;
  auto other_memory = *open_uio_memory(options);
  auto other = *open_uio_device({}, *other_memory, options);
  auto memory = *open_uio_memory(options);
  std::unique_ptr<Device> device = *open_uio_device({}, *memory, options);
  return owned(std::move(device), std::move(memory), std::move(other), std::move(other_memory),
               std::move(fpga));
}

CreatedDevice foreign(const char* revision) {
  Result<std::unique_ptr<Device>> device = testing::open_test_driver(revision);
  if (!device.ok()) return device.status();
  return owned(*std::move(device));
}

const Accelerator kSecondRevision{.revision = Revision::k0_0_2};

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Device, DeviceConformance,
    ::testing::Values(
        DeviceImplementation{.name = "Simulator", .create = [] { return simulator({}); }},
        DeviceImplementation{.name = "SimulatorOfTheSecondRevision",
                             .create = [] { return simulator(kSecondRevision); }},
        DeviceImplementation{.name = "SimulatorOfFourByEight",
                             .create = [] { return simulator(testing::four_by_eight()); }},
        DeviceImplementation{.name = "Timed",
                             .create = timed,
                             .deviations = {{"DoesNotWaitForTheModelledTime",
                                             "this device is there to wait for it"}}},
        DeviceImplementation{.name = "Model", .create = [] { return model({}); }},
        DeviceImplementation{.name = "ModelThatIsPolled",
                             .create = [] { return model({.interrupt = false}); }},
        DeviceImplementation{
            .name = "ModelWithFaults",
            .create =
                [] {
                  return model({.model = {.faults = {{FaultKind::kStaleDone, 2},
                                                     {FaultKind::kLostInterrupt, 3}},
                                          .stale_done = std::chrono::milliseconds(3)},
                                .driver = {.interrupt_patience = std::chrono::milliseconds(5)}});
                }},
        DeviceImplementation{.name = "Uio", .create = uio},
        DeviceImplementation{.name = "UioShared", .create = uio_shared},
        DeviceImplementation{.name = "ForeignDriver", .create = [] { return foreign("0.0.1"); }},
        DeviceImplementation{.name = "ForeignDriverOfTheSecondRevision",
                             .create = [] { return foreign("0.0.2"); }}),
    name_of);

}  // namespace edgepipe::conformance
