// FunctionStage: a plain function as a stage of a pipeline.
//
//   auto stage = std::make_unique<FunctionStage>("halve", [](auto inputs, auto outputs) {
//     std::transform(..., inputs[0].data, outputs[0].data, ...);
//     return Status();
//   });
//
// An exception from the function becomes the frame's error (kInternal); it does not end the
// program.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/stage.h"
#include "edgepipe/stage_function.h"
#include "edgepipe/status.h"

namespace edgepipe {

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
