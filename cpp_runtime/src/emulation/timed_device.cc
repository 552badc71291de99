#include "emulation/timed_device.h"

#include <algorithm>
#include <utility>

#include "base/precise_sleep.h"

namespace edgepipe {

TimedDevice::TimedDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

const Accelerator& TimedDevice::accelerator() const { return inner_->accelerator(); }

DeviceMemory& TimedDevice::memory() { return inner_->memory(); }

Status TimedDevice::prepare_checked(const Submission& submission) {
  return inner_->prepare(submission);
}

Status TimedDevice::run_checked(const Submission& submission) {
  const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline, submission.waited);
  if (!turn.ok()) return turn.status();
  const Clock::time_point began = Clock::now();
  Submission inner = submission;
  inner.ran = nullptr;  // this device's own time counts
  if (Status status = inner_->run(inner); !status.ok()) return status;
  precise_sleep_until(began + std::min(submission.modelled_time, submission.time_limit));
  if (submission.modelled_time <= submission.time_limit) {
    if (submission.ran != nullptr) *submission.ran += Clock::now() - began;
    return {};
  }
  return {Code::kDeadline, "the program's modelled time exceeds the time limit",
          "allow the device more time"};
}

}  // namespace edgepipe
