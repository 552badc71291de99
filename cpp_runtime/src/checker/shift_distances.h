// ShiftDistances: which entries of acc are safe distances of a vector SHR on an accelerator that
// does not shift left.
//
//   distances.load(instruction, constants);      // a LOAD of acc
//   distances.overwrite(touched.dst);            // a GEMM or ALU
//   distances.find_unsafe(touched.src);          // a vector SHR: the first entry, or none
//
// A distance is the low 5 bits of a lane as a signed number. Upstream's Chisel hardware takes a
// negative one as a distance from 16 to 31 to the right, all other hardware shifts left. Lanes are
// data, so only those that come from memory that never changes are known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checker/step_footprints.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"

namespace edgepipe {

class ShiftDistances {
 public:
  /// What is known of the lanes of an entry.
  enum class Lanes : std::uint8_t { kUnknown, kRight, kLeft };

  struct Unsafe {
    std::uint32_t entry = 0;
    Lanes lanes = Lanes::kUnknown;  // kUnknown or kLeft
  };

  /// `accelerator` is borrowed. Everything is unknown at first.
  explicit ShiftDistances(const Accelerator& accelerator);

  /// Whether vector SHRs need the check: false for accelerators that shift left.
  [[nodiscard]] bool are_limited() const { return !lanes_.empty(); }

  /// Notes a LOAD of acc entries, all within the buffer. `constants` is the first row in memory, or
  /// null if its content may change or no row is read.
  void load(const Instruction& i, const std::byte* constants);

  /// Notes that a GEMM or ALU writes entries.
  void overwrite(std::span<const Interval> entries);

  /// The first of the entries that a vector SHR must not take as distances.
  [[nodiscard]] std::optional<Unsafe> find_unsafe(std::span<const Interval> entries) const;

 private:
  const Accelerator& accelerator_;
  std::vector<Lanes> lanes_;  // of each acc entry; empty if the accelerator shifts left
};

}  // namespace edgepipe
