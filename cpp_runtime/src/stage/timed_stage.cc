#include "stage/timed_stage.h"

#include <utility>

#include "base/precise_sleep.h"
#include "edgepipe/sync.h"

namespace edgepipe {

TimedStage::TimedStage(std::unique_ptr<Stage> inner, std::chrono::nanoseconds modelled_time)
    : inner_(std::move(inner)), modelled_time_(modelled_time) {}

std::string_view TimedStage::name() const { return inner_->name(); }

WrittenBy TimedStage::written_by() const { return inner_->written_by(); }

bool TimedStage::repeatable() const { return inner_->repeatable(); }

std::chrono::nanoseconds TimedStage::device_wait() const { return inner_->device_wait(); }

std::chrono::nanoseconds TimedStage::device_run() const { return inner_->device_run(); }

Status TimedStage::bind(std::size_t slot, std::span<const BufferView> inputs,
                        std::span<const BufferView> outputs) {
  return inner_->bind(slot, inputs, outputs);
}

Status TimedStage::run(std::size_t slot) {
  const Clock::time_point began = Clock::now();
  if (Status status = inner_->run(slot); !status.ok()) return status;
  precise_sleep_until(began + modelled_time_);
  return {};
}

}  // namespace edgepipe
