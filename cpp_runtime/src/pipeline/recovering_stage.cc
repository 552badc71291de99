#include "pipeline/recovering_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgepipe {
namespace {

constexpr std::size_t kLongestInterval = 10'000;  // frames between two trials

}  // namespace

std::string place_of(std::size_t stage, std::string_view name, std::uint64_t frame) {
  return "stage " + std::to_string(stage) + " '" + std::string(name) + "' at frame " +
         std::to_string(frame);
}

void HangHistory::add(bool hung) {
  hangs_ += hung ? 1 : 0;
  hangs_ -= hung_[next_];
  hung_[next_] = hung ? 1 : 0;
  next_ = (next_ + 1) % hung_.size();
}

void HangHistory::clear() {
  std::ranges::fill(hung_, std::uint8_t{0});
  next_ = hangs_ = 0;
}

Status RecoveringStage::run(std::size_t slot, std::uint64_t frame) {
  if (fallen_back_) return trial_is_due() ? run_trial(slot, frame) : run_fallback(slot);
  const bool repeatable = node_.stage->repeatable();
  Status status = run_device(slot);
  const auto too_many = [this] { return history_.hangs() >= means_.policy.most_hangs; };
  if (status.code() == Code::kDeadline && repeatable && !too_many()) {
    note(frame, status.message(), "running the frame again");
    status = run_device(slot);
    MutexLock lock(mutex_);
    ++record_.retries;
  }
  if (status.code() == Code::kDeadline && repeatable && too_many()) status = given_up(status);
  const bool device_failed =
      status.code() == Code::kDevice || (status.code() == Code::kDeadline && repeatable);
  if (!device_failed || node_.fallback == nullptr) return status;
  note(frame, status.message(), "its fallback takes over");
  fall_back();
  return run_fallback(slot);
}

Status RecoveringStage::given_up(const Status& last) const {
  return {Code::kDevice,
          last.message() + "; " + std::to_string(history_.hangs()) + " of the last " +
              std::to_string(history_.runs()) + " runs hung",
          last.hint()};
}

Status RecoveringStage::run_device(std::size_t slot) {
  Status status = node_.stage->run(slot);
  const bool hung = status.code() == Code::kDeadline;
  history_.add(hung);
  if (hung) {
    MutexLock lock(mutex_);
    ++record_.hangs;
  }
  return status;
}

Status RecoveringStage::run_fallback(std::size_t slot) {
  Status status = node_.fallback->run(slot);
  if (!status.ok()) return status.with_context("fallback");
  if (means_.memory != nullptr) {
    // Lines that the fallback wrote must not be written back over a later run's outputs.
    for (const BufferView& view : means_.outputs[slot]) means_.memory->flush(view);
  }
  MutexLock lock(mutex_);
  ++record_.fallback_frames;
  return status;
}

// ---- trials

void RecoveringStage::fall_back() {
  fallen_back_ = true;
  passed_ = 0;
  trial_interval_ = until_trial_ = means_.policy.trial_frames;
}

bool RecoveringStage::trial_is_due() {
  if (trial_interval_ == 0 || means_.memory == nullptr || !node_.stage->repeatable()) return false;
  if (until_trial_ > 0) --until_trial_;
  return until_trial_ == 0;
}

/// The frame's result is the fallback's, regardless of what the device does.
Status RecoveringStage::run_trial(std::size_t slot, std::uint64_t frame) {
  const std::vector<BufferView>& outputs = means_.outputs[slot];
  Status trial = run_device(slot);
  trial_.resize(outputs.size());
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    trial_[n].assign(outputs[n].data, outputs[n].data + outputs[n].bytes);
  }
  if (Status status = run_fallback(slot); !status.ok()) return status;
  for (std::size_t n = 0; n < outputs.size() && trial.ok(); ++n) {
    if (std::memcmp(trial_[n].data(), outputs[n].data, outputs[n].bytes) == 0) continue;
    trial = Status(Code::kDevice, "the device's output differs from the fallback's");
  }
  if (!trial.ok()) {
    passed_ = 0;
    trial_interval_ = std::min(2 * trial_interval_, kLongestInterval);
    until_trial_ = trial_interval_;
    note(frame, trial.message(),
         "the next trial is in " + std::to_string(trial_interval_) + " frames");
    return {};
  }
  until_trial_ = 1;
  if (++passed_ < means_.policy.trials) return {};
  fallen_back_ = false;
  history_.clear();
  note(frame, "the device passed " + std::to_string(passed_) + " trials", "it is used again");
  return {};
}

void RecoveringStage::note(std::uint64_t frame, const std::string& what,
                           const std::string& remedy) {
  std::string text = place_of(index_, node_.stage->name(), frame) + ": " + what + "; " + remedy;
  if (on_fault_) on_fault_(text);
  MutexLock lock(mutex_);
  record_.fault = std::move(text);
}

RecoveringStage::Record RecoveringStage::record() const {
  MutexLock lock(mutex_);
  Record record = record_;
  record.device_wait = node_.stage->device_wait() - earlier_wait_;
  record.device_run = node_.stage->device_run() - earlier_run_;
  return record;
}

void RecoveringStage::reset() {
  fallen_back_ = false;
  history_.clear();
  MutexLock lock(mutex_);
  record_ = {};
  earlier_wait_ = node_.stage->device_wait();
  earlier_run_ = node_.stage->device_run();
}

}  // namespace edgepipe
