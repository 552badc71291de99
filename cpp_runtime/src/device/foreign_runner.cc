#include "device/foreign_runner.h"

#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace edgepipe {

class ForeignRunner::State {
 public:
  struct Call {
    ForeignDriver::PhysicalAddress address = 0;
    std::uint32_t count = 0;
    std::uint32_t polls = 0;
  };

  explicit State(ForeignDriver driver) : driver_(std::move(driver)), memory_(driver_) {}
  ~State() {
    if (handle_ != nullptr) driver_.functions().device_free(handle_);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Status allocate() {
    handle_ = driver_.functions().device_alloc();
    if (handle_ != nullptr) return {};
    return {Code::kDevice, driver_name() + ": VTADeviceAlloc returned no device"};
  }

  /// What the thread does.
  void work() {
    Call call;
    while (next(call)) {
      finish(device_run(call));
    }
  }

  void stop() {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify();
  }

  Status await_idle(Clock::time_point deadline) {
    MutexLock lock(mutex_);
    if (wait_for_end(lock, deadline)) return {};
    return {Code::kDeadline, driver_name() + ": VTADeviceRun of an earlier run has not returned",
            "end this program: a call into a library cannot be interrupted"};
  }

  Result<int> run(const Call& call, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    call_ = call;
    busy_ = wanted_ = true;
    changed_.notify();
    if (wait_for_end(lock, deadline)) return result_;
    return Status(Code::kDeadline, driver_name() + ": VTADeviceRun of " +
                                       std::to_string(call.count) + " instructions at " +
                                       std::to_string(call.address) + " has not returned in time");
  }

  [[nodiscard]] ForeignMemory& memory() { return memory_; }
  [[nodiscard]] const std::string& path() const { return driver_.path(); }

 private:
  [[nodiscard]] std::string driver_name() const { return "driver " + driver_.path(); }

  /// A C++ library may run out of memory; its exception must not end the thread.
  int device_run(const Call& call) {
    try {
      return driver_.functions().device_run(handle_, call.address, call.count, call.polls);
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }

  /// Waits for a call; false after stop().
  bool next(Call& call) EDGEPIPE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!wanted_ && !stop_) changed_.wait_until(lock, far_future());
    if (!wanted_) return false;
    wanted_ = false;
    call = call_;
    return true;
  }

  void finish(int result) EDGEPIPE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    result_ = result;
    busy_ = false;
    changed_.notify();
  }

  bool wait_for_end(MutexLock& lock, Clock::time_point deadline) EDGEPIPE_REQUIRES(mutex_) {
    while (busy_) {
      if (!changed_.wait_until(lock, deadline) && Clock::now() >= deadline) return !busy_;
    }
    return true;
  }

  const ForeignDriver driver_;
  ForeignMemory memory_;
  ForeignDriver::Handle handle_ = nullptr;

  Mutex mutex_;  // not held during a call
  CondVar changed_;
  Call call_ EDGEPIPE_GUARDED_BY(mutex_);
  bool wanted_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // the thread has not taken the call yet
  bool busy_ EDGEPIPE_GUARDED_BY(mutex_) = false;    // it has not returned yet
  bool stop_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  int result_ EDGEPIPE_GUARDED_BY(mutex_) = 0;
};

Result<std::unique_ptr<ForeignRunner>> ForeignRunner::start(ForeignDriver driver) {
  auto state = std::make_shared<State>(std::move(driver));
  if (Status status = state->allocate(); !status.ok()) return status;
  try {
    // Not a Thread: nothing may wait for a call that never returns.
    std::thread([state] { state->work(); }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kDevice,
                  "driver " + state->path() + ": its thread cannot be started: " + error.what());
  }
  return std::unique_ptr<ForeignRunner>(new ForeignRunner(std::move(state)));
}

ForeignRunner::ForeignRunner(std::shared_ptr<State> state) : state_(std::move(state)) {}

ForeignRunner::~ForeignRunner() { state_->stop(); }

ForeignMemory& ForeignRunner::memory() { return state_->memory(); }

const std::string& ForeignRunner::path() const { return state_->path(); }

Status ForeignRunner::await_idle(Clock::time_point deadline) {
  return state_->await_idle(deadline);
}

Result<int> ForeignRunner::run(ForeignDriver::PhysicalAddress address, std::uint32_t count,
                               std::uint32_t polls, Clock::time_point deadline) {
  return state_->run({.address = address, .count = count, .polls = polls}, deadline);
}

}  // namespace edgepipe
