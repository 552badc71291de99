// ForeignRunner: calls VTADeviceRun on its own thread, so that a caller can stop waiting.
//
//   Result<std::unique_ptr<ForeignRunner>> runner = ForeignRunner::start(std::move(driver));
//   Result<int> result = (*runner)->run(address, count, Clock::now() + 1s);
//   if (result.status().code() == Code::kDeadline) ...  // the library is still running
//
// A call into a library cannot be interrupted. If it does not return in time, the thread keeps
// waiting for it, and everything that the call may use stays allocated: the library, its device and
// its memory. The next call can begin only after it has returned. If it never returns, they stay
// until the process ends.
//
// Thread rules: one caller at a time; memory() is for any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/foreign_driver.h"
#include "device/foreign_memory.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ForeignRunner {
 public:
  /// Allocates the library's device and starts the thread. kDevice if the library has no device.
  static Result<std::unique_ptr<ForeignRunner>> start(ForeignDriver driver);

  /// Ends the thread; does not wait for a call that has not returned.
  ~ForeignRunner();
  ForeignRunner(const ForeignRunner&) = delete;
  ForeignRunner& operator=(const ForeignRunner&) = delete;

  [[nodiscard]] ForeignMemory& memory();
  [[nodiscard]] const std::string& path() const;

  /// Blocks until no call is under way; kDeadline.
  Status await_idle(Clock::time_point deadline);

  /// Returns what VTADeviceRun returned, or kDeadline. No call may be under way. `polls` is how
  /// often the library polls before it gives up by itself. Allocates nothing unless it fails.
  Result<int> run(ForeignDriver::PhysicalAddress address, std::uint32_t count, std::uint32_t polls,
                  Clock::time_point deadline);

 private:
  class State;
  explicit ForeignRunner(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace edgepipe
