// The steps of a GEMM or ALU instruction: what each iteration of its loops accesses.
//
//   for_each_step(instruction, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t wgt) {
//     ...
//   });
#pragma once

#include <cstdint>

#include "edgepipe/instruction.h"

namespace edgepipe {

/// Iterations begin..end-1 of an instruction's two outer loops, numbered in the hardware's order.
/// Each has one step for every uop.
struct Iterations {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

inline Iterations all_iterations(const Instruction& i) {
  return {.begin = 0, .end = i.iter_out * i.iter_in};
}

/// What each of some iterations adds to the uops' indices.
///
///   for (LoopOffsets at(instruction, iterations); at.valid(); at.next()) { ... all uops ... }
class LoopOffsets {
 public:
  LoopOffsets(const Instruction& instruction, Iterations iterations)
      : i_(instruction), left_(iterations.end - iterations.begin) {
    if (left_ == 0) return;
    out_ = iterations.begin / i_.iter_in;
    in_ = iterations.begin % i_.iter_in;
    set_offsets();
  }

  [[nodiscard]] bool valid() const { return left_ != 0; }
  void next() {
    --left_;
    if (++in_ == i_.iter_in) {
      in_ = 0;
      ++out_;
    }
    set_offsets();
  }

  std::uint32_t dst = 0, src = 0, wgt = 0;

 private:
  void set_offsets() {
    dst = out_ * i_.dst_factor_out + in_ * i_.dst_factor_in;
    src = out_ * i_.src_factor_out + in_ * i_.src_factor_in;
    wgt = out_ * i_.wgt_factor_out + in_ * i_.wgt_factor_in;
  }

  const Instruction& i_;
  std::uint32_t left_;
  std::uint32_t out_ = 0, in_ = 0;
};

/// Calls step(dst, src, wgt) for every step of some iterations, in the hardware's order.
template <typename Step>
void for_each_step(const Instruction& i, Iterations iterations, const Uop* uops, Step&& step) {
  const Uop* const end = uops + (i.uop_end - i.uop_begin);
  for (LoopOffsets at(i, iterations); at.valid(); at.next()) {
    for (const Uop* uop = uops; uop != end; ++uop) {
      step(uop->dst + at.dst, uop->src + at.src, uop->wgt + at.wgt);
    }
  }
}

/// The same, but stops if `step` returns false; true if it never did.
template <typename Step>
bool every_step(const Instruction& i, const Uop* uops, Step&& step) {
  const Uop* const end = uops + (i.uop_end - i.uop_begin);
  for (LoopOffsets at(i, all_iterations(i)); at.valid(); at.next()) {
    for (const Uop* uop = uops; uop != end; ++uop) {
      if (!step(uop->dst + at.dst, uop->src + at.src, uop->wgt + at.wgt)) return false;
    }
  }
  return true;
}

}  // namespace edgepipe
