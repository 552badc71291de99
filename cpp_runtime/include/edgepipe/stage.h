// Stage: a segment of a network (or a plain function) that turns a slot's inputs into its outputs.
//
// conformance/stage_suite.h tests these promises on any stage.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "edgepipe/buffer_view.h"
#include "edgepipe/status.h"

namespace edgepipe {

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

  /// Whether a run that ended with kDeadline has no side effects, so that the same frame may be run
  /// again.
  [[nodiscard]] virtual bool repeatable() const { return false; }
};

}  // namespace edgepipe
