// OwnStage: your own stage: it inverts the brightness of a picture's bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/stage.h"

class OwnStage final : public edgepipe::Stage {
 public:
  std::string_view name() const override { return "invert"; }

  edgepipe::Status bind(std::size_t slot, std::span<const edgepipe::BufferView> inputs,
                        std::span<const edgepipe::BufferView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != 1 || inputs[0].bytes != outputs[0].bytes) {
      return {edgepipe::Code::kInvalidArgument,
              "invert: expected one input and one output of the same size"};
    }
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    slots_[slot] = {.input = inputs[0], .output = outputs[0]};
    return {};
  }

  edgepipe::Status run(std::size_t slot) override {
    if (slot >= slots_.size() || slots_[slot].input.data == nullptr) {
      return {edgepipe::Code::kInvalidArgument,
              "invert: slot " + std::to_string(slot) + " was never bound"};
    }
    const auto& [input, output] = slots_[slot];
    for (std::size_t n = 0; n < input.bytes; ++n) output.data[n] = ~input.data[n];
    return {};
  }

 private:
  struct Slot {
    edgepipe::BufferView input;
    edgepipe::BufferView output;
  };
  std::vector<Slot> slots_;
};
