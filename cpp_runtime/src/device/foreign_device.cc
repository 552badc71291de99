#include "device/foreign_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "device/foreign_runner.h"
#include "device/run_deadline.h"

namespace edgepipe {
namespace {

using std::chrono::nanoseconds;

/// How often a library polls before it gives up, which should be a little later than the caller
/// does. A register access takes longer than this.
std::uint32_t polls_in(nanoseconds limit) {
  constexpr nanoseconds kShortestPoll{100};
  return static_cast<std::uint32_t>(
      std::clamp<nanoseconds::rep>(limit / kShortestPoll, 1, UINT32_MAX));
}

constexpr std::array<std::pair<const char*, Revision>, 2> kRevisions{
    {{"0.0.1", Revision::k0_0_1}, {"0.0.2", Revision::k0_0_2}}};

std::string text_of(Revision revision) {
  return std::ranges::find(kRevisions, revision, &std::pair<const char*, Revision>::second)->first;
}

class ForeignDevice final : public Device {
 public:
  ForeignDevice(const Accelerator& accelerator, std::unique_ptr<ForeignRunner> runner)
      : accelerator_(accelerator), runner_(std::move(runner)) {}

  [[nodiscard]] const Accelerator& accelerator() const override { return accelerator_; }
  [[nodiscard]] DeviceMemory& memory() override { return runner_->memory(); }

 protected:
  Status run_checked(const Submission& submission) override {
    const Clock::time_point patience = std::min(submission.turn_deadline, far_future());
    const Result<Turns::Turn> turn = turns_.take(patience, submission.waited);
    if (!turn.ok()) return turn.status();
    if (Status status = runner_->await_idle(patience); !status.ok()) return status;
    const auto address = static_cast<ForeignDriver::PhysicalAddress>(submission.address);
    runner_->memory().begin_run();
    const Clock::time_point began = Clock::now();
    const Result<int> result =
        runner_->run(address, submission.count, polls_in(submission.time_limit),
                     run_deadline(submission.time_limit));
    if (!result.ok()) return result.status();
    if (*result == 0) {
      if (submission.ran != nullptr) *submission.ran += Clock::now() - began;
      runner_->memory().end_run();
      return {};
    }
    // The accelerator may still be running: what is released stays reserved until a run succeeds.
    return {Code::kDevice, "driver " + runner_->path() + ": VTADeviceRun of " +
                               std::to_string(submission.count) + " instructions at " +
                               std::to_string(submission.address) + " gave " +
                               std::to_string(*result) + ", expected 0"};
  }

 private:
  const Accelerator accelerator_;
  const std::unique_ptr<ForeignRunner> runner_;
  Turns turns_;  // one run at a time
};

}  // namespace

Result<NamedLibrary> parse_library(const std::string& text) {
  const std::size_t at = text.rfind('@');
  if (at != std::string::npos && at != 0) {
    for (const auto& [name, revision] : kRevisions) {
      if (text.substr(at + 1) == name) {
        return NamedLibrary{.path = text.substr(0, at), .revision = revision};
      }
    }
  }
  return Status(Code::kInvalidArgument,
                "driver " + text +
                    ": found no encoding revision, expected PATH@0.0.1 or "
                    "PATH@0.0.2: VTA's driver.h does not report it",
                "name the revision of the hardware or simulator that the library was built for");
}

Result<std::unique_ptr<Device>> open_foreign_device(const Accelerator& accelerator,
                                                    const NamedLibrary& library) {
  if (Status status = accelerator.validate(); !status.ok()) return status;
  if (library.revision != accelerator.revision) {
    return Status(Code::kOtherRevision,
                  "driver " + library.path.string() + ": its encoding revision is " +
                      text_of(library.revision) + ", the programs are compiled for " +
                      text_of(accelerator.revision),
                  "build the bundle for a board of that revision, or use another library");
  }
  Result<ForeignDriver> driver = ForeignDriver::open(library.path);
  if (!driver.ok()) return driver.status();
  Result<std::unique_ptr<ForeignRunner>> runner = ForeignRunner::start(*std::move(driver));
  if (!runner.ok()) return runner.status();
  return std::unique_ptr<Device>(std::make_unique<ForeignDevice>(accelerator, *std::move(runner)));
}

}  // namespace edgepipe
