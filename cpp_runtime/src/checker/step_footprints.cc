#include "checker/step_footprints.h"

#include <algorithm>
#include <array>

#include "isa/instruction_steps.h"

namespace edgepipe {
namespace {

/// Networks have hundreds of different loops. A program with more costs time, not memory.
constexpr std::size_t kMostKnown = 4096;

/// Whether the instruction reads a second operand, and reads it from acc.
bool reads_inp(const Instruction& i) { return i.opcode == Opcode::kGemm && i.reset == 0; }
bool reads_acc(const Instruction& i) { return i.opcode == Opcode::kAlu && i.use_imm == 0; }

struct Slopes {
  std::int64_t out;
  std::int64_t in;
};

/// Iterations 0..last_out of the outer loop and first_in..last_in of the inner one.
struct Box {
  std::int64_t last_out;
  std::int64_t first_in;
  std::int64_t last_in;
};

/// Whether slopes.out * out + slopes.in * in is `sum` for any out and in of the box.
bool has_solution(const Slopes& slopes, const Box& box, std::int64_t sum) {
  const auto [least_in, most_in] = std::minmax({slopes.in * box.first_in, slopes.in * box.last_in});
  const std::int64_t farthest = slopes.out * box.last_out;
  if (sum < least_in + std::min<std::int64_t>(0, farthest)) return false;
  if (sum > most_in + std::max<std::int64_t>(0, farthest)) return false;
  const std::int64_t last_out = slopes.out == 0 ? 0 : box.last_out;
  for (std::int64_t out = 0; out <= last_out; ++out) {
    const std::int64_t rest = sum - slopes.out * out;
    if (slopes.in == 0 ? rest == 0
                       : rest % slopes.in == 0 && rest / slopes.in >= box.first_in &&
                             rest / slopes.in <= box.last_in) {
      return true;
    }
  }
  return false;
}

}  // namespace

const StepFootprint& StepFootprints::of(const Instruction& i, std::span<const Uop> uops,
                                        std::size_t uop_loads) {
  if (uop_loads != uop_loads_) current_.clear();
  uop_loads_ = uop_loads;
  const std::array<std::uint32_t, 11> loop = {
      i.iter_out,       i.iter_in,        i.dst_factor_out,
      i.dst_factor_in,  i.src_factor_out, i.src_factor_in,
      i.wgt_factor_out, i.wgt_factor_in,  (reads_inp(i) ? 1U : 0U) | (reads_acc(i) ? 2U : 0U),
      i.uop_begin,      i.uop_end};
  loop_key_.assign(reinterpret_cast<const char*>(loop.data()), sizeof(loop));
  const auto known = current_.find(loop_key_);
  if (known != current_.end()) return *known->second;
  // Only the contents of the uops matter here, not their position.
  key_.assign(loop_key_, 0, loop_key_.size() - 2 * sizeof(std::uint32_t));
  key_.append(reinterpret_cast<const char*>(uops.data()), uops.size_bytes());
  const StepFootprint& footprint = of_key(i, uops);
  current_.emplace(loop_key_, &footprint);
  return footprint;
}

const StepFootprint& StepFootprints::of_key(const Instruction& i, std::span<const Uop> uops) {
  const auto known = known_.find(key_);
  if (known != known_.end()) return known->second;
  if (known_.size() >= kMostKnown) {
    known_.clear();
    current_.clear();
  }
  return known_.emplace(key_, find(i, uops)).first->second;
}

StepFootprint StepFootprints::find(const Instruction& i, std::span<const Uop> uops) {
  StepFootprint found;
  if (i.iter_out == 0 || i.iter_in == 0 || uops.empty()) return found;
  const bool inp = reads_inp(i);
  const bool acc = reads_acc(i);
  const Operand dst{&Uop::dst, i.dst_factor_out, i.dst_factor_in, accelerator_.acc_depth()};
  const Operand src{&Uop::src, i.src_factor_out, i.src_factor_in,
                    inp ? accelerator_.inp_depth() : accelerator_.acc_depth()};
  const Operand wgt{&Uop::wgt, i.wgt_factor_out, i.wgt_factor_in, accelerator_.wgt_depth()};
  found.in_range = add(i, uops, dst, found.dst) &&
                   (!(inp || acc) || add(i, uops, src, found.src)) &&
                   (!inp || add(i, uops, wgt, found.wgt));
  found.hazardous = comes_too_soon(i, uops, dst, dst) || (acc && comes_too_soon(i, uops, dst, src));
  return found;
}

/// Finds the entries that all steps access as one operand; false if one of them does not exist.
bool StepFootprints::add(const Instruction& i, std::span<const Uop> uops, const Operand& operand,
                         std::vector<Interval>& found) {
  std::uint32_t first = UINT32_MAX;
  std::uint32_t last = 0;
  for (const Uop& uop : uops) {
    first = std::min(first, uop.*operand.index);
    last = std::max(last, uop.*operand.index);
  }
  const std::uint64_t after = std::uint64_t{last} + 1 +
                              std::uint64_t{i.iter_out - 1} * operand.factor_out +
                              std::uint64_t{i.iter_in - 1} * operand.factor_in;
  if (after > operand.depth) return false;
  const auto end = static_cast<std::uint32_t>(after);
  touched_.assign(end - first, 0);
  for (const Uop& uop : uops) touched_[uop.*operand.index - first] = 1;
  repeat(i.iter_in, operand.factor_in);
  repeat(i.iter_out, operand.factor_out);
  bool before = false;
  for (std::uint32_t entry = first; entry < end; ++entry) {
    const bool touched = touched_[entry - first] != 0;
    if (touched && !before) found.push_back({.begin = entry, .end = entry});
    if (touched) ++found.back().end;
    before = touched;
  }
  return true;
}

/// Also touches the entries 1 to `count` - 1 times `factor` above every touched entry.
void StepFootprints::repeat(std::uint32_t count, std::uint32_t factor) {
  if (count <= 1 || factor == 0) return;
  repeats_.resize(std::max(repeats_.size(), touched_.size()));
  for (std::size_t n = 0; n < touched_.size(); ++n) {  // n is repeats_[n] times above a touched one
    const std::uint32_t below = n < factor ? count : repeats_[n - factor];
    repeats_[n] = touched_[n] != 0 ? 0 : std::min(below + 1, count);
    touched_[n] = repeats_[n] < count ? 1 : 0;
  }
}

/// Whether a step uses an acc entry as `later` less than the hazard distance after another step
/// wrote it. Only steps of one iteration and of the few that follow it are that close, so this
/// checks, for every two uops that are, whether they use the same entry in any iteration.
bool StepFootprints::comes_too_soon(const Instruction& i, std::span<const Uop> uops,
                                    const Operand& dst, const Operand& later) {
  const std::size_t steps = uops.size();
  written_.resize(steps);
  used_.resize(steps);
  for (std::size_t n = 0; n < steps; ++n) {
    written_[n] = uops[n].*dst.index;
    used_[n] = uops[n].*later.index;
  }
  // The distance that the loops put between the two operands.
  const std::int64_t apart_out = std::int64_t{dst.factor_out} - later.factor_out;
  const std::int64_t apart_in = std::int64_t{dst.factor_in} - later.factor_in;
  const bool moves_alike = apart_out == 0 && apart_in == 0;
  // If there are more steps than acc has entries, two of them write the same one.
  const std::size_t enough = std::min(accelerator_.acc_hazard_steps, dst.depth + 1);
  for (std::size_t distance = 1; distance < enough; ++distance) {
    // First within one iteration, then in all of them.
    const std::size_t inside = moves_alike ? steps - std::min(distance, steps) : 0;
    bool found = false;
    for (std::size_t n = 0; n < inside; ++n) found |= written_[n] == used_[n + distance];
    for (std::size_t n = inside; n < steps && !found; ++n) {
      const auto iterations = static_cast<std::int64_t>((n + distance) / steps);
      // How often the inner loop restarts in between, which depends on its position.
      const std::int64_t most = (iterations + i.iter_in - 1) / i.iter_in;
      for (std::int64_t out = iterations / i.iter_in; out <= most && out < i.iter_out; ++out) {
        const std::int64_t in = iterations - out * i.iter_in;
        const std::int64_t moved = out * later.factor_out + in * later.factor_in;
        found = found || has_solution({.out = apart_out, .in = apart_in},
                                      {.last_out = i.iter_out - 1 - out,
                                       .first_in = std::max<std::int64_t>(0, -in),
                                       .last_in = i.iter_in - 1 - std::max<std::int64_t>(0, in)},
                                      used_[(n + distance) % steps] + moved - written_[n]);
      }
    }
    if (found) return true;
  }
  return false;
}

}  // namespace edgepipe
