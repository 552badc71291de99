#include "emulation/driven_logic.h"

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "device/vta_registers.h"
#include "edgepipe/sync.h"

namespace edgepipe {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::microseconds kStepInterval{50};
constexpr std::chrono::seconds kResetPatience{60};  // the model first ends the program that it runs

/// The interrupt line between the model and the driver, as its interrupt controller keeps it.
class Wire {
 public:
  void raise() {
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
  Status set(bool high) override {
    if (high) wire_.raise();
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

class DrivenLogic::Impl {
 public:
  Impl() : line_(wire_) {}
  ~Impl() { stop(); }

  void stop() {
    stop_ = true;
    if (thread_) thread_->join();
    thread_.reset();
  }

  Status start(ProgrammableLogic& logic, const Accelerator& accelerator, DeviceMemory& memory,
               const Options& options) {
    // The driver begins with a reset or a run, so the logic must already be running.
    Result<Thread> thread =
        Thread::start({.name = "fpga model", .cores = {}}, [this, &logic] { step(logic); });
    if (!thread.ok()) return thread.status();
    thread_.emplace(*std::move(thread));
    HardwareDevice::Parts parts;
    parts.registers = std::make_unique<MemoryRegisters>(registers_);
    if (options.interrupt) parts.interrupt = std::make_unique<WireSource>(wire_);
    if (options.reset) parts.reset = std::make_unique<ModelReset>(registers_);
    parts.memory = &memory;
    Result<std::unique_ptr<HardwareDevice>> driver =
        HardwareDevice::create(accelerator, std::move(parts), options.driver);
    if (!driver.ok()) return driver.status();
    driver_ = *std::move(driver);
    return {};
  }

  [[nodiscard]] std::span<std::byte> registers() { return registers_; }
  [[nodiscard]] InterruptLine& interrupt() { return line_; }
  [[nodiscard]] HardwareDevice& driver() { return *driver_; }

 private:
  void step(ProgrammableLogic& logic) {
    while (!stop_) {
      const Result<bool> busy = or_out_of_memory([&] { return logic.step(); });
      if (!busy.ok() || !*busy) std::this_thread::sleep_for(kStepInterval);
    }
  }

  alignas(8) std::array<std::byte, vta::kBytesWithReset> registers_{};
  Wire wire_;
  WireLine line_;
  std::unique_ptr<HardwareDevice> driver_;
  std::atomic<bool> stop_{false};
  std::optional<Thread> thread_;
};

DrivenLogic::DrivenLogic() : impl_(std::make_unique<Impl>()) {}
DrivenLogic::~DrivenLogic() = default;
std::span<std::byte> DrivenLogic::registers() { return impl_->registers(); }
InterruptLine& DrivenLogic::interrupt() { return impl_->interrupt(); }
void DrivenLogic::stop() { impl_->stop(); }
HardwareDevice& DrivenLogic::driver() { return impl_->driver(); }

Status DrivenLogic::start(ProgrammableLogic& logic, const Accelerator& accelerator,
                          DeviceMemory& memory, const Options& options) {
  return impl_->start(logic, accelerator, memory, options);
}

}  // namespace edgepipe
