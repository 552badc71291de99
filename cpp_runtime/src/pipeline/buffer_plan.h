// BufferPlan: which tensors of a frame share a buffer because they are never needed at once.
//
//   const BufferPlan plan = BufferPlan::of(graph);
//   allocate(plan.bytes[plan.buffer_of[tensor]]);
//
// A tensor's memory is used again once every stage that writes or reads it has finished, in any
// order in which threads may run the stages:
//
//   picture | arm0 | a | vta1 | b | arm2 | c | vta3 | d | arm4 | result
//   buffers          0          1          0          1                   (a, c and b, d)
//
// edgepipe/bundle/buffers.py makes the same plan when a bundle is built, to know its memory.
#pragma once

#include <cstddef>
#include <vector>

#include "edgepipe/graph.h"

namespace edgepipe {

struct BufferPlan {
  std::vector<std::size_t> buffer_of;  // by tensor
  std::vector<std::size_t> bytes;      // by buffer: those of its largest tensor
  std::vector<std::size_t> largest;    // by buffer: that tensor

  /// Plans the buffers of one frame. Inputs, outputs, tensors that the graph keeps, and tensors
  /// that a stage writes or reads whose writer is unknown have buffers of their own.
  ///
  /// The CPU and the accelerator never write to the same buffer: without coherent caches, lines
  /// that the CPU wrote for an earlier tensor could be written back over the accelerator's results.
  /// Requires a valid graph.
  static BufferPlan of(const Graph& graph);
};

}  // namespace edgepipe
