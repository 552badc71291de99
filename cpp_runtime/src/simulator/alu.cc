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

// The bounds are in the immediate. They are int8; one below the other is not checked.
struct Requantise {
  std::int32_t low, high;

  Requantise(std::int32_t imm, std::int32_t low_bits)
      : low(static_cast<std::int8_t>(imm & low_bits)), high(static_cast<std::int8_t>(imm >> 8)) {}

  [[nodiscard]] std::int32_t clipped(std::int32_t sum, std::int32_t operand) const {
    const std::int32_t shifted = sum >> (static_cast<std::uint32_t>(operand) & 31U);
    return std::min(std::max(shifted, low), high);
  }
};

// A constant from -2^26 to 2^26 - 1 above the 5 bits of a distance from 0 to 31.
struct RequantiseVector : Requantise {
  explicit RequantiseVector(std::int32_t imm) : Requantise(imm, 0xff) {}
  [[nodiscard]] std::int32_t apply(std::int32_t a, std::int32_t b) const {
    return clipped(Add::apply(a, b >> 5), b);
  }
};

// The distance is where the low bits of the lower bound would be.
struct RequantiseImmediate : Requantise {
  explicit RequantiseImmediate(std::int32_t imm) : Requantise(imm, 0xe0) {}
  [[nodiscard]] std::int32_t apply(std::int32_t a, std::int32_t b) const { return clipped(a, b); }
};

// The product of any two 16-bit numbers has 32 bits.
struct Multiply {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return static_cast<std::int16_t>(a) * static_cast<std::int16_t>(b);
  }
};

// A leaky ReLU: the immediate has both shifts, and whether the value gets what was shifted.
struct Leaky {
  std::uint32_t first, second;
  bool adds, has_offset;

  Leaky(std::int32_t imm, bool is_vector)
      : first(static_cast<std::uint32_t>(imm) & 7U),
        second((static_cast<std::uint32_t>(imm) >> 4) & 7U),
        adds((imm & 8) != 0),
        has_offset(is_vector) {}

  [[nodiscard]] std::int32_t apply(std::int32_t a, std::int32_t b) const {
    const std::int32_t branch = Add::apply(a, has_offset ? b : 0) >> first;
    return std::max(adds ? Add::apply(a, branch) : a, branch >> second);
  }
};

template <typename Op>
void run(const Instruction& i, Iterations iterations, const Uop* uops,
         const Accelerator& accelerator, std::int32_t* acc, const Op op = Op()) {
  const std::size_t lanes = accelerator.out_bytes();
  if (i.use_imm != 0 && accelerator.implementation == Implementation::kChisel) {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      const std::int32_t* b = acc + src * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = op.apply(b[lane], i.imm);
    });
  } else if (i.use_imm != 0) {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = op.apply(a[lane], i.imm);
    });
  } else {
    for_each_step(i, iterations, uops, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
      std::int32_t* a = acc + dst * lanes;
      const std::int32_t* b = acc + src * lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) a[lane] = op.apply(a[lane], b[lane]);
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
    case AluOp::kRequantise:
    case AluOp::kTable:
      if (instruction.use_imm == 0) {
        return run(instruction, iterations, uops, accelerator, acc,
                   RequantiseVector(instruction.imm));
      }
      return run(instruction, iterations, uops, accelerator, acc,
                 RequantiseImmediate(instruction.imm));
    case AluOp::kMultiply:
      return run<Multiply>(instruction, iterations, uops, accelerator, acc);
    case AluOp::kLeaky:
      return run(instruction, iterations, uops, accelerator, acc,
                 Leaky(instruction.imm, instruction.use_imm == 0));
  }
}

}  // namespace edgepipe
