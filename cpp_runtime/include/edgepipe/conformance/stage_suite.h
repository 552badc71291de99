// StageConformance: the promises of edgepipe/stage.h as tests.
//
//   class MyStageUnderTest final : public StageUnderTest {
//    public:
//     edgepipe::Stage& stage() override { return stage_; }
//     edgepipe::DeviceMemory& memory() override { return *memory_; }
//     std::vector<std::size_t> input_bytes() const override { return {16}; }
//     std::vector<std::size_t> output_bytes() const override { return {16}; }
//     Tensors expected(const Tensors& inputs) const override { ... }
//   };
//
// implementation.h shows how to instantiate the suite. Its tests are in stage_suite.cc, which the
// test program compiles with allocation_counter.cc; the latter replaces operator new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "edgepipe/conformance/implementation.h"
#include "edgepipe/memory.h"
#include "edgepipe/stage.h"

namespace edgepipe::conformance {

/// The bytes of several tensors, in the order of a stage's inputs or outputs.
using Tensors = std::vector<std::vector<std::byte>>;

/// A stage and its expected results, for one test.
class StageUnderTest : public UnderTest {
 public:
  /// A new stage, with no slot bound.
  [[nodiscard]] virtual Stage& stage() = 0;

  /// The memory for its buffers: that of its device, or HostMemory if it has none.
  [[nodiscard]] virtual DeviceMemory& memory() = 0;

  [[nodiscard]] virtual std::vector<std::size_t> input_bytes() const = 0;
  [[nodiscard]] virtual std::vector<std::size_t> output_bytes() const = 0;

  /// Inputs for a frame, different for each seed. Random bytes, unless the stage needs other
  /// values.
  [[nodiscard]] virtual Tensors inputs(std::uint32_t seed) const;

  /// The outputs that the stage must compute from `inputs`.
  [[nodiscard]] virtual Tensors expected(const Tensors& inputs) const = 0;

  /// Inputs that make a run fail; nullopt if no inputs do.
  [[nodiscard]] virtual std::optional<Tensors> failing_inputs() const { return std::nullopt; }
};

using StageImplementation = Implementation<StageUnderTest>;

class StageConformance : public Conformance<StageUnderTest> {
 protected:
  [[nodiscard]] Stage& stage() { return subject().stage(); }
};

}  // namespace edgepipe::conformance
