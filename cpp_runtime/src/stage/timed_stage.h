// TimedStage: wraps a stage on ARM cores and slows it down to its modelled time on the board.
//
//   node.stage = std::make_unique<TimedStage>(std::move(node.stage), spec.modelled_time);
//   Status status = node.stage->run(slot);  // returns after that time or later
//
// The stage's thread sleeps for the rest of the time, so its core counts as busy, and others of
// this machine are free for stages that the board would run at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "edgepipe/stage.h"
#include "edgepipe/status.h"

namespace edgepipe {

class TimedStage final : public Stage {
 public:
  /// Takes ownership of the stage that does the work.
  TimedStage(std::unique_ptr<Stage> inner, std::chrono::nanoseconds modelled_time);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] WrittenBy written_by() const override;
  [[nodiscard]] bool repeatable() const override;
  [[nodiscard]] std::chrono::nanoseconds device_wait() const override;
  [[nodiscard]] std::chrono::nanoseconds device_run() const override;

  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override;

  /// Like the inner stage; an error returns at once.
  Status run(std::size_t slot) override;

 private:
  const std::unique_ptr<Stage> inner_;
  const std::chrono::nanoseconds modelled_time_;
};

}  // namespace edgepipe
