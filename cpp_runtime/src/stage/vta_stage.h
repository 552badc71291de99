// VtaStage: a stage of the pipeline that runs a Program on a Device.
//
//   Result<std::unique_ptr<VtaStage>> stage = VtaStage::create(
//       device, *std::move(program), {.name = "body", .inputs = {"x"}, .outputs = {"y"}});
//
// Every slot gets a copy of the instructions with its own buffers' addresses. The slots
// share constants and scratch, because a device runs one program at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/stage.h"
#include "edgepipe/status.h"
#include "stage/program.h"

namespace edgepipe {

class VtaStage final : public Stage {
 public:
  struct Options {
    std::string name;
    std::vector<std::string> inputs;               // tensor names in the order of bind's views
    std::vector<std::string> outputs;              // the same
    std::chrono::milliseconds time_limit{10'000};  // of one run, once the device is free
  };

  /// Copies the constants to device memory. `device` is borrowed and must outlive the stage.
  /// kInvalidArgument if the program was compiled for another accelerator or its tensors are not
  /// those of the options; kOutOfMemory if the device's memory is too small.
  static Result<std::unique_ptr<VtaStage>> create(Device& device, Program program, Options options);

  [[nodiscard]] std::string_view name() const override { return options_.name; }
  [[nodiscard]] WrittenBy written_by() const override { return WrittenBy::kAccelerator; }

  /// See Stage. The views must be in the device's memory and at least as large as their regions.
  /// kDevice for a program that breaks a rule of the accelerator or accesses memory outside its
  /// regions. Binding a slot again replaces its buffers.
  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override;

  /// See Stage. kInvalidArgument for a slot that was never bound, otherwise the device's status.
  Status run(std::size_t slot) override;

  /// A program does not modify its inputs, so it can be restarted.
  [[nodiscard]] bool repeatable() const override { return true; }

  [[nodiscard]] std::chrono::nanoseconds device_wait() const override {
    return std::chrono::nanoseconds(device_wait_ns_.load(std::memory_order_relaxed));
  }

  [[nodiscard]] std::chrono::nanoseconds device_run() const override {
    return std::chrono::nanoseconds(device_run_ns_.load(std::memory_order_relaxed));
  }

 private:
  struct Slot {
    Buffer instructions;
    std::vector<MemoryRange> ranges;  // the program's regions
    std::vector<BufferView> inputs;
    std::vector<BufferView> outputs;
  };

  VtaStage(Device& device, Program program, Options options);
  Status match_tensors();
  Status allocate_regions();
  Status place_tensors(std::span<const BufferView> views, std::span<const std::size_t> regions,
                       std::vector<std::uint64_t>& bases) const;
  [[nodiscard]] std::vector<MemoryRange> ranges(std::span<const std::uint64_t> bases) const;
  [[nodiscard]] Submission submission(const Slot& slot) const;

  Device& device_;
  const Program program_;
  const Options options_;
  std::vector<std::size_t> input_regions_;  // region of each input, in the order of the options
  std::vector<std::size_t> output_regions_;
  std::vector<Buffer> shared_;  // by region; empty for tensors
  std::vector<Slot> slots_;
  std::atomic<std::int64_t> device_wait_ns_{0};
  std::atomic<std::int64_t> device_run_ns_{0};
};

}  // namespace edgepipe
