#include "edgepipe/device.h"

#include <algorithm>

#include "checker/program_gate.h"

namespace edgepipe {

Device::Device() : gate_(std::make_unique<ProgramGate>()) {}
Device::~Device() = default;

template <typename Use>
Status Device::admit(const Submission& submission, Use use) {
  if (submission.checked != nullptr) return use(submission);
  const Result<ProgramGate::Pass> pass = gate_->admit(accelerator(), memory(),
                                                      {.address = submission.address,
                                                       .count = submission.count,
                                                       .layers = submission.layers,
                                                       .ranges = submission.ranges});
  if (!pass.ok()) return pass.status();
  Submission checked = submission;
  checked.checked = &**pass;
  return use(checked);
}

Status Device::prepare(const Submission& submission) {
  return admit(submission, [this](const Submission& checked) { return prepare_checked(checked); });
}

Status Device::run(const Submission& submission) {
  return admit(submission, [this](const Submission& checked) { return run_checked(checked); });
}

Status Device::prepare_checked(const Submission& /*submission*/) { return {}; }

std::chrono::milliseconds DeviceSet::limit_for(std::chrono::nanoseconds modelled_time) const {
  if (time_limit.count() > 0) return time_limit;
  if (modelled_time.count() == 0) return std::max(least_time_limit, DeviceSet().least_time_limit);
  return std::max(least_time_limit,
                  std::chrono::ceil<std::chrono::milliseconds>(kModelledTimes * modelled_time));
}

}  // namespace edgepipe
