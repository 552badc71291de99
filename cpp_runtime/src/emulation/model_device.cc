#include "emulation/model_device.h"

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "device/vta_registers.h"
#include "edgepipe/sync.h"
#include "simulator/simulator.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::microseconds kStepInterval{50};
constexpr std::chrono::seconds kResetPatience{60};  // the model first ends the program that it runs

/// The interrupt line between the model and the driver.
class Wire {
 public:
  void pulse() {
    MutexLock lock(mutex_);
    pending_ = true;
    changed_.notify();
  }
  void clear() {
    MutexLock lock(mutex_);
    pending_ = false;
  }
  bool wait(Clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!pending_) {
      if (!changed_.wait_until(lock, deadline)) break;
    }
    return std::exchange(pending_, false);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool pending_ EDGEPIPE_GUARDED_BY(mutex_) = false;
};

class WireLine final : public InterruptLine {
 public:
  explicit WireLine(Wire& wire) : wire_(wire) {}
  Status pulse() override {
    wire_.pulse();
    return {};
  }

 private:
  Wire& wire_;
};

class WireSource final : public InterruptSource {
 public:
  explicit WireSource(Wire& wire) : wire_(wire) {}
  Status arm() override {
    wire_.clear();
    return {};
  }
  Result<bool> wait(Clock::time_point deadline) override { return wire_.wait(deadline); }

 private:
  Wire& wire_;
};

class MemoryRegisters final : public RegisterFile {
 public:
  explicit MemoryRegisters(std::span<std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const override {
    return word(offset).load();
  }
  void write(std::uint32_t offset, std::uint32_t value) override { word(offset).store(value); }

 private:
  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::uint32_t offset) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(bytes_.data() + offset));
  }
  std::span<std::byte> bytes_;
};

class ModelReset final : public ResetLine {
 public:
  explicit ModelReset(std::span<std::byte> bytes) : registers_(bytes) {}
  Status reset() override {
    const std::uint32_t request = registers_.read(vta::kResetRequest) + 1;
    registers_.write(vta::kResetRequest, request);
    const Clock::time_point deadline = Clock::now() + kResetPatience;
    while (registers_.read(vta::kResetAcknowledge) != request) {
      if (Clock::now() > deadline) return {Code::kDeadline, "reset: not acknowledged"};
      std::this_thread::sleep_for(milliseconds(1));
    }
    return {};
  }

 private:
  MemoryRegisters registers_;
};

}  // namespace

class ModelDevice::Impl {
 public:
  Impl(std::unique_ptr<Simulator> simulator, FpgaModel::Options options)
      : simulator_(std::move(simulator)),
        line_(wire_),
        model_(*simulator_, registers_, line_, std::move(options)) {}

  ~Impl() {
    stop_ = true;
    if (thread_) thread_->join();
  }

  Status start(DeviceMemory& memory, const Options& options) {
    // The driver begins with a reset or a run, so the model must already be running.
    Result<Thread> thread = Thread::start({.name = "fpga model", .cores = {}}, [this] { step(); });
    if (!thread.ok()) return thread.status();
    thread_.emplace(*std::move(thread));
    HardwareDevice::Parts parts;
    parts.registers = std::make_unique<MemoryRegisters>(registers_);
    if (options.interrupt) parts.interrupt = std::make_unique<WireSource>(wire_);
    if (options.reset) parts.reset = std::make_unique<ModelReset>(registers_);
    parts.memory = &memory;
    Result<std::unique_ptr<HardwareDevice>> driver =
        HardwareDevice::create(simulator_->accelerator(), std::move(parts), options.driver);
    if (!driver.ok()) return driver.status();
    driver_ = *std::move(driver);
    return {};
  }

  [[nodiscard]] HardwareDevice& driver() { return *driver_; }

 private:
  void step() {
    while (!stop_) {
      const Result<bool> busy = or_out_of_memory([this] { return model_.step(); });
      if (!busy.ok() || !*busy) std::this_thread::sleep_for(kStepInterval);
    }
  }

  alignas(8) std::array<std::byte, vta::kBytesWithReset> registers_{};
  Wire wire_;
  std::unique_ptr<Simulator> simulator_;
  WireLine line_;
  FpgaModel model_;
  std::unique_ptr<HardwareDevice> driver_;
  std::atomic<bool> stop_{false};
  std::optional<Thread> thread_;
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
