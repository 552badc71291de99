#include "edgepipe/timed_device.h"

#include <chrono>
#include <thread>
#include <utility>

namespace edgepipe {

TimedDevice::TimedDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

const Accelerator& TimedDevice::accelerator() const { return inner_->accelerator(); }

DeviceMemory& TimedDevice::memory() { return inner_->memory(); }

Status TimedDevice::prepare(const Submission& submission) { return inner_->prepare(submission); }

Status TimedDevice::run(const Submission& submission) {
  const auto end = std::chrono::steady_clock::now() + submission.modelled_time;
  if (Status status = inner_->run(submission); !status.ok()) return status;
  if (end > submission.deadline) {
    std::this_thread::sleep_until(submission.deadline);
    return {Code::kDeadline, "the deadline is before the end of the program's modelled time"};
  }
  std::this_thread::sleep_until(end);
  return {};
}

}  // namespace edgepipe
