// stopwatch: edgepipe-run with its own device, which measures every run of a VTA program.
//
//   stopwatch BUNDLE --golden --frames 20 --device stopwatch
//
// A device runs VTA programs. It owns or borrows the memory for programs and tensors, and runs
// programs from there. This one hands both to the simulator, so that it can run anywhere; a driver
// for your accelerator implements the same four functions.

#include <edgepipe/device.h>
#include <edgepipe/device_registry.h>
#include <edgepipe/programs.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace {

using edgepipe::Accelerator;
using edgepipe::Clock;
using edgepipe::Device;
using edgepipe::DeviceGroup;
using edgepipe::DeviceMemory;
using edgepipe::DeviceRegistry;
using edgepipe::DeviceRequest;
using edgepipe::Result;
using edgepipe::Status;
using edgepipe::Submission;

class Stopwatch final : public Device {
 public:
  explicit Stopwatch(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  ~Stopwatch() override {
    const double total_ms = std::chrono::duration<double, std::milli>(total_).count();
    std::fprintf(stderr, "stopwatch: %d runs, %.3f ms each\n", runs_,
                 runs_ == 0 ? 0.0 : total_ms / runs_);
  }

  // What programs for this device are compiled for. A session compares it with the bundle's.
  [[nodiscard]] const Accelerator& accelerator() const override { return inner_->accelerator(); }

  // The memory for instructions, weights and tensors. A real device returns memory that it can
  // reach: a class derived from DeviceMemory, which says how addresses and caches are handled.
  [[nodiscard]] DeviceMemory& memory() override { return inner_->memory(); }

 protected:
  // Called once for each program before its first run, so that no frame waits for the work.
  Status prepare_checked(const Submission& submission) override {
    return inner_->prepare(submission);
  }

  // Runs a program that edgepipe has checked, and blocks until it has finished. A real device
  // writes the address and the count of instructions to its registers and waits for the done flag,
  // at most for the time limit. Any thread may call it, also during another run.
  Status run_checked(const Submission& submission) override {
    const Clock::time_point start = Clock::now();
    Status status = inner_->run(submission);
    const Clock::duration elapsed = Clock::now() - start;
    const std::scoped_lock lock(mutex_);
    total_ += elapsed;
    ++runs_;
    return status;
  }

 private:
  std::unique_ptr<Device> inner_;
  std::mutex mutex_;
  Clock::duration total_{};
  int runs_ = 0;
};

// Opens as many devices as the request asks for; --device stopwatch:0+1 asks for two.
Result<DeviceGroup> open_stopwatches(const DeviceRequest& request) {
  const auto simulator = DeviceRegistry::instance().find("simulator");
  if (!simulator.ok()) return simulator.status();
  Result<DeviceGroup> group = simulator->open(request);
  if (!group.ok()) return group;
  for (std::unique_ptr<Device>& device : group->devices) {
    device = std::make_unique<Stopwatch>(std::move(device));
  }
  return group;
}

}  // namespace

int main(int argc, char** argv) {
  // A registered kind of device is found by --device, and --help lists it.
  const Status status =
      DeviceRegistry::instance().add({.name = "stopwatch",
                                      .help = "the simulator, with the time of every run",
                                      .open = open_stopwatches});
  if (!status.ok()) {
    std::fprintf(stderr, "stopwatch: error: %s\n", status.message().c_str());
    return 1;
  }
  return edgepipe::programs::run_main(argc, argv);
}
