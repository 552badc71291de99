#include "emulation/rtl_device.h"

#include <utility>

#include "emulation/driven_logic.h"
#include "emulation/rtl_core.h"
#include "emulation/rtl_fpga.h"

namespace edgepipe {

class RtlDevice::Impl {
 public:
  explicit Impl(std::unique_ptr<RtlCore> core)
      : core_(std::move(core)), fpga_(*core_, driven_.registers(), driven_.interrupt(), {}) {}
  ~Impl() { driven_.stop(); }

  Status start(const Accelerator& accelerator, DeviceMemory& memory, const Options& options) {
    return driven_.start(
        fpga_, accelerator, memory,
        {.driver = options.driver, .interrupt = options.interrupt, .reset = options.reset});
  }

  [[nodiscard]] HardwareDevice& driver() { return driven_.driver(); }

 private:
  DrivenLogic driven_;
  std::unique_ptr<RtlCore> core_;
  RtlFpga fpga_;
};

Result<std::unique_ptr<RtlDevice>> RtlDevice::create(const Accelerator& accelerator,
                                                     HostMemory& memory, const std::string& library,
                                                     const Options& options) {
  Result<std::unique_ptr<RtlCore>> core =
      RtlCore::open(library, memory.bytes(), memory.extent()->address);
  if (!core.ok()) return core.status();
  auto impl = std::make_unique<Impl>(*std::move(core));
  if (Status status = impl->start(accelerator, memory, options); !status.ok()) return status;
  return std::unique_ptr<RtlDevice>(new RtlDevice(std::move(impl)));
}

RtlDevice::RtlDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RtlDevice::~RtlDevice() = default;
const Accelerator& RtlDevice::accelerator() const { return impl_->driver().accelerator(); }
DeviceMemory& RtlDevice::memory() { return impl_->driver().memory(); }
Status RtlDevice::prepare_checked(const Submission& s) { return impl_->driver().prepare(s); }
Status RtlDevice::run_checked(const Submission& s) { return impl_->driver().run(s); }
HardwareDevice::Statistics RtlDevice::statistics() { return impl_->driver().statistics(); }

}  // namespace edgepipe
