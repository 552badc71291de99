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

}  // namespace

StepFootprints::StepFootprints(const Accelerator& accelerator)
    : hazard_steps_(accelerator.acc_hazard_steps),
      dst_(accelerator.acc_depth()),
      src_inp_(accelerator.inp_depth()),
      src_acc_(accelerator.acc_depth()),
      wgt_(accelerator.wgt_depth()),
      last_write_(accelerator.acc_depth(), 0) {}

bool StepFootprints::Marks::add(std::uint32_t entry) {
  if (entry >= touched_.size()) return false;
  touched_[entry] = 1;
  first_ = std::min(first_, entry);
  last_ = std::max(last_, entry);
  return true;
}

std::vector<Interval> StepFootprints::Marks::take() {
  std::vector<Interval> intervals;
  for (std::uint32_t entry = first_; entry <= last_ && first_ != UINT32_MAX; ++entry) {
    if (touched_[entry] == 0) continue;
    touched_[entry] = 0;
    if (intervals.empty() || intervals.back().end != entry) {
      intervals.push_back({.begin = entry, .end = entry});
    }
    ++intervals.back().end;
  }
  first_ = UINT32_MAX;
  last_ = 0;
  return intervals;
}

const StepFootprint& StepFootprints::of(const Instruction& i, std::span<const Uop> uops) {
  const std::array<std::uint32_t, 9> loop = {
      i.iter_out,       i.iter_in,        i.dst_factor_out,
      i.dst_factor_in,  i.src_factor_out, i.src_factor_in,
      i.wgt_factor_out, i.wgt_factor_in,  (reads_inp(i) ? 1U : 0U) | (reads_acc(i) ? 2U : 0U)};
  key_.assign(reinterpret_cast<const char*>(loop.data()), sizeof(loop));
  key_.append(reinterpret_cast<const char*>(uops.data()), uops.size_bytes());
  const auto known = known_.find(key_);
  if (known != known_.end()) return known->second;
  if (known_.size() >= kMostKnown) known_.clear();
  return known_.emplace(key_, find(i, uops)).first->second;
}

StepFootprint StepFootprints::find(const Instruction& i, std::span<const Uop> uops) {
  StepFootprint found;
  const bool inp = reads_inp(i);
  const bool acc = reads_acc(i);
  step_ += hazard_steps_;  // the pipeline drains between instructions
  const auto is_early = [&](std::uint32_t entry) {
    return last_write_[entry] != 0 && step_ - last_write_[entry] < hazard_steps_;
  };
  for_each_step(i, uops.data(), [&](std::uint32_t dst, std::uint32_t src, std::uint32_t wgt) {
    if (inp) found.in_range = src_inp_.add(src) && wgt_.add(wgt) && found.in_range;
    if (acc) found.in_range = src_acc_.add(src) && found.in_range;
    found.in_range = dst_.add(dst) && found.in_range;
    if (!found.in_range) return;
    found.hazardous = found.hazardous || is_early(dst) || (acc && is_early(src));
    last_write_[dst] = step_++;
  });
  found.dst = dst_.take();
  found.src = inp ? src_inp_.take() : src_acc_.take();
  found.wgt = wgt_.take();
  return found;
}

}  // namespace edgepipe
