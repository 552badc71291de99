#include "device/foreign_device.h"

#include <string>
#include <utility>

#include "device/foreign_memory.h"
#include "edgepipe/device.h"
#include "edgepipe/instruction.h"

namespace edgepipe {
namespace {

// How often a driver polls for the end of a run before it gives up; from upstream's runtime.cc.
constexpr std::uint32_t kWaitCycles = 10'000'000;

class ForeignDevice final : public Device {
 public:
  ForeignDevice(const Accelerator& accelerator, ForeignDriver driver)
      : accelerator_(accelerator), driver_(std::move(driver)), memory_(driver_) {}

  ~ForeignDevice() override {
    if (handle_ != nullptr) driver_.functions().device_free(handle_);
  }

  Status allocate() {
    handle_ = driver_.functions().device_alloc();
    if (handle_ != nullptr) return {};
    return {Code::kDevice, "driver " + driver_.path() + ": VTADeviceAlloc returned no device"};
  }

  [[nodiscard]] const Accelerator& accelerator() const override { return accelerator_; }
  [[nodiscard]] DeviceMemory& memory() override { return memory_; }
  Status prepare(const Submission& /*submission*/) override { return {}; }

  Status run(const Submission& submission) override {
    const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline);
    if (!turn.ok()) return turn.status();
    // The driver knows nothing of allocations, so it would run whatever is there.
    const Result<std::byte*> instructions = memory_.translate(
        submission.address, std::size_t{submission.count} * sizeof(InstructionWord));
    if (!instructions.ok()) return instructions.status().with_context("instructions");
    const auto address = static_cast<ForeignDriver::PhysicalAddress>(submission.address);
    const int result =
        driver_.functions().device_run(handle_, address, submission.count, kWaitCycles);
    if (result == 0) return {};
    return {Code::kDevice, "driver " + driver_.path() + ": VTADeviceRun of " +
                               std::to_string(submission.count) + " instructions at " +
                               std::to_string(submission.address) + " gave " +
                               std::to_string(result) + ", expected 0"};
  }

 private:
  const Accelerator accelerator_;
  const ForeignDriver driver_;
  ForeignMemory memory_;
  Turns turns_;  // one run at a time
  ForeignDriver::Handle handle_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Device>> open_foreign_device(const Accelerator& accelerator,
                                                    const std::filesystem::path& library) {
  if (Status status = accelerator.validate(); !status.ok()) return status;
  Result<ForeignDriver> driver = ForeignDriver::open(library);
  if (!driver.ok()) return driver.status();
  auto device = std::make_unique<ForeignDevice>(accelerator, *std::move(driver));
  if (Status status = device->allocate(); !status.ok()) return status;
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace edgepipe
