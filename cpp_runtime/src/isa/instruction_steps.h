// The steps of a GEMM or ALU instruction: what each iteration of its loops accesses.
//
//   for_each_step(instruction, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t wgt) {
//     ...
//   });
#pragma once

#include <cstdint>

#include "edgepipe/instruction.h"

namespace edgepipe {

/// The two outer loops of a GEMM or ALU instruction: what each iteration adds to the uops' indices.
///
///   for (LoopOffsets at(instruction); at.valid(); at.next()) { ... all uops ... }
class LoopOffsets {
 public:
  explicit LoopOffsets(const Instruction& instruction) : i_(instruction) {}

  [[nodiscard]] bool valid() const { return out_ < i_.iter_out && i_.iter_in != 0; }
  void next() {
    if (++in_ == i_.iter_in) {
      in_ = 0;
      ++out_;
    }
    dst = out_ * i_.dst_factor_out + in_ * i_.dst_factor_in;
    src = out_ * i_.src_factor_out + in_ * i_.src_factor_in;
    wgt = out_ * i_.wgt_factor_out + in_ * i_.wgt_factor_in;
  }

  std::uint32_t dst = 0, src = 0, wgt = 0;

 private:
  const Instruction& i_;
  std::uint32_t out_ = 0, in_ = 0;
};

/// Calls step(dst, src, wgt) for every step of a GEMM or ALU instruction, in the hardware's order.
template <typename Step>
void for_each_step(const Instruction& i, const Uop* uops, Step&& step) {
  const Uop* const end = uops + (i.uop_end - i.uop_begin);
  for (LoopOffsets at(i); at.valid(); at.next()) {
    for (const Uop* uop = uops; uop != end; ++uop) {
      step(uop->dst + at.dst, uop->src + at.src, uop->wgt + at.wgt);
    }
  }
}

}  // namespace edgepipe
