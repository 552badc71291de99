#include "pipeline/recovering_stage.h"

#include <utility>

namespace edgepipe {

std::string place_of(std::size_t stage, std::string_view name, std::uint64_t frame) {
  return "stage " + std::to_string(stage) + " '" + std::string(name) + "' at frame " +
         std::to_string(frame);
}

Status RecoveringStage::run(std::size_t slot, std::uint64_t frame) {
  if (fallen_back_) return run_fallback(slot);
  Stage& stage = *node_.stage;
  Status status = stage.run(slot);
  if (status.code() == Code::kDeadline && stage.repeatable()) {
    note(frame, status, "running the frame again");
    status = stage.run(slot);
    MutexLock lock(mutex_);
    ++record_.retries;
  }
  const bool device_failed =
      status.code() == Code::kDevice || (status.code() == Code::kDeadline && stage.repeatable());
  if (!device_failed || node_.fallback == nullptr) return status;
  note(frame, status, "its fallback takes over");
  fallen_back_ = true;
  return run_fallback(slot);
}

Status RecoveringStage::run_fallback(std::size_t slot) {
  Status status = node_.fallback->run(slot);
  if (!status.ok()) return status.with_context("fallback");
  MutexLock lock(mutex_);
  ++record_.fallback_frames;
  return status;
}

void RecoveringStage::note(std::uint64_t frame, const Status& status, const char* remedy) {
  std::string what =
      place_of(index_, node_.stage->name(), frame) + ": " + status.message() + "; " + remedy;
  if (on_fault_) on_fault_(what);
  MutexLock lock(mutex_);
  record_.fault = std::move(what);
}

RecoveringStage::Record RecoveringStage::record() const {
  MutexLock lock(mutex_);
  return record_;
}

void RecoveringStage::reset() {
  fallen_back_ = false;
  MutexLock lock(mutex_);
  record_ = {};
}

}  // namespace edgepipe
