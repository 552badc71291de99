// Stage: a segment of a network (or a plain function) that turns a slot's inputs into its outputs.
//
//   auto stage = std::make_unique<FunctionStage>("halve", [](auto inputs, auto outputs) {
//     std::transform(..., inputs[0].data, outputs[0].data, ...);
//     return Status();
//   });
//   graph.nodes.push_back({.stage = std::move(stage), .reads = {0}, .writes = {1}});
//
// conformance/stage_suite.h tests these promises on any stage.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/memory.h"
#include "edgepipe/stage_function.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Who writes a stage's outputs. Within a frame, tensors of the same known writer share memory once
/// they are no longer read (src/pipeline/buffer_plan.h).
enum class WrittenBy : std::uint8_t {
  kUnknown,      // its tensors, and those that it reads, have memory of their own
  kCpu,          // instructions of this processor
  kAccelerator,  // a device, after which the CPU's caches hold nothing that it has not flushed
};

/// Lifecycle: create -> bind every slot once -> run any number of times -> destroy.
/// One thread runs a stage at a time; bind is called before any run, from the building thread.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Prepares to run on slot number `slot`. May allocate. The views are in the manifest's order.
  virtual Status bind(std::size_t slot, std::span<const BufferView> inputs,
                      std::span<const BufferView> outputs) = 0;

  /// Computes the outputs of a bound slot, in full, from its inputs, and writes nothing else.
  /// Blocks until done. Does not allocate. kInvalidArgument names a slot that was never bound; any
  /// other error is this frame's alone.
  virtual Status run(std::size_t slot) = 0;

  /// Who writes the outputs. A known writer promises more: a run writes every byte of the outputs
  /// that is ever read, whatever they held before, and nothing uses the views between runs.
  [[nodiscard]] virtual WrittenBy written_by() const { return WrittenBy::kUnknown; }

  /// Whether a run that ended with kDeadline has no side effects, so that the same frame may be run
  /// again.
  [[nodiscard]] virtual bool repeatable() const { return false; }

  /// How long its runs have waited for a device that others used, in total. For any thread.
  [[nodiscard]] virtual std::chrono::nanoseconds device_wait() const { return {}; }

  /// How long its device has worked in its runs, in total (Submission::ran). For any thread.
  [[nodiscard]] virtual std::chrono::nanoseconds device_run() const { return {}; }
};

/// A plain function as a stage. An exception from the function becomes the frame's error
/// (kInternal); it does not end the program.
class FunctionStage : public Stage {
 public:
  using Views = std::span<const BufferView>;
  using Body = std::function<Status(Views inputs, Views outputs)>;

  FunctionStage(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}

  /// Makes a stage of a C function; `context` is passed to every call and must outlive the stage.
  static std::unique_ptr<FunctionStage> create(std::string name, EpStageFunction function,
                                               void* context);

  /// Makes a stage of the EpStageFunction `symbol` of a shared library, which stays loaded as long
  /// as the stage exists. kNotFound if the library cannot be loaded or has no such symbol. Blocks.
  static Result<std::unique_ptr<FunctionStage>> open(std::string name,
                                                     const std::filesystem::path& library,
                                                     const std::string& symbol);

  [[nodiscard]] std::string_view name() const override { return name_; }

  Status bind(std::size_t slot, Views inputs, Views outputs) override;

  /// Returns the function's result; kInvalidArgument for a slot that was never bound.
  Status run(std::size_t slot) override;

 private:
  struct Slot {
    std::vector<BufferView> inputs;
    std::vector<BufferView> outputs;
    bool bound = false;
  };

  std::string name_;
  Body body_;
  std::vector<Slot> slots_;
};

}  // namespace edgepipe
