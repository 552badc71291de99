#include "emulation/model_device.h"

#include <utility>

#include "emulation/driven_logic.h"
#include "simulator/simulator.h"

namespace edgepipe {

class ModelDevice::Impl {
 public:
  Impl(std::unique_ptr<Simulator> simulator, FpgaModel::Options options)
      : simulator_(std::move(simulator)),
        model_(*simulator_, driven_.registers(), driven_.interrupt(), std::move(options)) {}
  ~Impl() { driven_.stop(); }

  Status start(DeviceMemory& memory, const Options& options) {
    return driven_.start(
        model_, simulator_->accelerator(), memory,
        {.driver = options.driver, .interrupt = options.interrupt, .reset = options.reset});
  }

  [[nodiscard]] HardwareDevice& driver() { return driven_.driver(); }

 private:
  DrivenLogic driven_;
  std::unique_ptr<Simulator> simulator_;
  FpgaModel model_;
};

Result<std::unique_ptr<ModelDevice>> ModelDevice::create(const Accelerator& accelerator,
                                                         DeviceMemory& memory,
                                                         DeviceMemory& device_side,
                                                         const Options& options) {
  Result<std::unique_ptr<Simulator>> simulator = Simulator::create(accelerator, device_side);
  if (!simulator.ok()) return simulator.status();
  auto impl = std::make_unique<Impl>(*std::move(simulator), options.model);
  if (Status status = impl->start(memory, options); !status.ok()) return status;
  return std::unique_ptr<ModelDevice>(new ModelDevice(std::move(impl)));
}

ModelDevice::ModelDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelDevice::~ModelDevice() = default;
const Accelerator& ModelDevice::accelerator() const { return impl_->driver().accelerator(); }
DeviceMemory& ModelDevice::memory() { return impl_->driver().memory(); }
Status ModelDevice::prepare_checked(const Submission& s) { return impl_->driver().prepare(s); }
Status ModelDevice::run_checked(const Submission& s) { return impl_->driver().run(s); }
HardwareDevice::Statistics ModelDevice::statistics() { return impl_->driver().statistics(); }

}  // namespace edgepipe
