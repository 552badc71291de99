#include "simulator/alu.h"

#include <algorithm>

namespace edgepipe {
namespace {

struct Min {
  static std::int32_t apply(std::int32_t a, std::int32_t b) { return std::min(a, b); }
};

struct Max {
  static std::int32_t apply(std::int32_t a, std::int32_t b) { return std::max(a, b); }
};

struct Add {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
};

// The shift is the low 5 bits of the operand as a signed number: -16 (left) .. 15 (right).
struct Shr {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    const std::uint32_t low = static_cast<std::uint32_t>(b) & 31U;
    if (low < 16) return a >> low;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << (32 - low));
  }
};

// A vector's lane as the Chisel hardware takes it: no negative distances.
struct ShrRight {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return a >> (static_cast<std::uint32_t>(b) & 31U);
  }
};

template <typename Op>
void run(const Instruction& i, Iterations iterations, const Uop* uops,
         const Accelerator& accelerator, std::int32_t* acc) {
  const std::size_t lanes = accelerator.out_bytes();
  if (i.use_imm != 0 && accelerator.implementation == Implementation::kChisel) {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      const std::int32_t* b = acc + src * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = Op::apply(b[lane], i.imm);
    });
  } else if (i.use_imm != 0) {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = Op::apply(a[lane], i.imm);
    });
  } else {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      const std::int32_t* b = acc + src * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = Op::apply(a[lane], b[lane]);
    });
  }
}

}  // namespace

void run_alu(const Instruction& instruction, Iterations iterations, const Uop* uops,
             const Accelerator& accelerator, std::int32_t* acc) {
  const bool shifts_right_only =
      instruction.use_imm == 0 && accelerator.implementation == Implementation::kChisel;
  switch (instruction.alu_opcode) {
    case AluOp::kMin:
      return run<Min>(instruction, iterations, uops, accelerator, acc);
    case AluOp::kMax:
      return run<Max>(instruction, iterations, uops, accelerator, acc);
    case AluOp::kAdd:
      return run<Add>(instruction, iterations, uops, accelerator, acc);
    case AluOp::kShr:
      if (shifts_right_only) return run<ShrRight>(instruction, iterations, uops, accelerator, acc);
      return run<Shr>(instruction, iterations, uops, accelerator, acc);
  }
}

}  // namespace edgepipe
