// StepFootprints: the entries that all steps of a GEMM or ALU access, computed once for equal
// loops.
//
//   const StepFootprint& touched = footprints.of(instruction, uops);
//
// A program has millions of steps but few different loops: tiles of a layer differ only in their
// data, and many steps of a loop access the same entries. A rule about steps can therefore be
// checked once per entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"

namespace edgepipe {

/// Entries begin..end-1 of a buffer.
struct Interval {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Ascending, disjoint intervals for each operand; src is in inp for a GEMM, in acc for an ALU.
struct StepFootprint {
  std::vector<Interval> dst;
  std::vector<Interval> src;
  std::vector<Interval> wgt;
  bool in_range = true;    // every entry exists; otherwise the intervals are incomplete
  bool hazardous = false;  // an acc entry is used too soon after its write
};

class StepFootprints {
 public:
  explicit StepFootprints(const Accelerator& accelerator);

  /// The footprint of a GEMM or ALU with the uops from uop_begin to uop_end. Operands that it does
  /// not read have no intervals. Valid until the next call.
  const StepFootprint& of(const Instruction& i, std::span<const Uop> uops);

 private:
  /// The entries of one buffer that were accessed since take().
  class Marks {
   public:
    explicit Marks(std::uint32_t depth) : touched_(depth, 0) {}
    bool add(std::uint32_t entry);
    std::vector<Interval> take();

   private:
    std::vector<std::uint8_t> touched_;
    std::uint32_t first_ = UINT32_MAX;
    std::uint32_t last_ = 0;
  };

  StepFootprint find(const Instruction& i, std::span<const Uop> uops);

  const std::uint64_t hazard_steps_;
  Marks dst_;
  Marks src_inp_;
  Marks src_acc_;
  Marks wgt_;
  std::vector<std::uint64_t> last_write_;  // step at which an acc entry was written, from 1
  std::uint64_t step_ = 0;
  std::string key_;
  std::unordered_map<std::string, StepFootprint> known_;  // by loop and uops, as bytes
};

}  // namespace edgepipe
