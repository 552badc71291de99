// StepFootprints: the entries that all steps of a GEMM or ALU access, computed once for equal
// loops.
//
//   const StepFootprint& touched = footprints.of(instruction, uops);
//
// A program has millions of steps but few different loops: tiles of a layer differ only in their
// data, and many steps of a loop access the same entries. A rule about steps can therefore be
// checked once per entry. A footprint follows from the loops' counts and factors, without running
// them, so its cost depends on the numbers of uops and entries but not on the number of steps.
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
  /// `accelerator` is borrowed.
  explicit StepFootprints(const Accelerator& accelerator) : accelerator_(accelerator) {}

  /// The footprint of a GEMM or ALU with the uops from uop_begin to uop_end. Operands that it does
  /// not read have no intervals. `uop_loads` identifies the state of the uop buffer: calls with the
  /// same number see the same uops. Valid until the next call.
  const StepFootprint& of(const Instruction& i, std::span<const Uop> uops, std::size_t uop_loads);

 private:
  /// One operand of an instruction: its index in a uop, and what the loops add to it.
  struct Operand {
    std::uint32_t Uop::*index;
    std::uint32_t factor_out;
    std::uint32_t factor_in;
    std::uint32_t depth;  // entries of its buffer
  };

  const StepFootprint& of_key(const Instruction& i, std::span<const Uop> uops);
  StepFootprint find(const Instruction& i, std::span<const Uop> uops);
  bool add(const Instruction& i, std::span<const Uop> uops, const Operand& operand,
           std::vector<Interval>& found);
  void repeat(std::uint32_t count, std::uint32_t factor);
  [[nodiscard]] bool comes_too_soon(const Instruction& i, std::span<const Uop> uops,
                                    const Operand& dst, const Operand& later);

  const Accelerator& accelerator_;
  std::vector<std::uint8_t> touched_;  // from the lowest entry that an operand accesses
  std::vector<std::uint32_t> repeats_;
  std::vector<std::uint32_t> written_;  // by the step of an iteration
  std::vector<std::uint32_t> used_;
  std::string key_;
  std::string loop_key_;
  std::unordered_map<std::string, StepFootprint> known_;  // by loop and uops, as bytes
  // The same by loop and range of uops, which costs less to look up. For uop_loads_ only.
  std::unordered_map<std::string, const StepFootprint*> current_;
  std::size_t uop_loads_ = 0;
};

}  // namespace edgepipe
