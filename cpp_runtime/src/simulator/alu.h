// The ALU instruction: operations on int32 vectors of the acc buffer.
#pragma once

#include <cstdint>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "isa/instruction_steps.h"

namespace edgepipe {

/// acc[dst] = acc[dst] op (imm or acc[src]), lane by lane, for every step of some iterations of a
/// checked instruction. For kChisel, an immediate is applied to acc[src], and no lane of a vector
/// shifts left.
/// `acc` is int32[depth][out_bytes()]; `uops` points at the instruction's first uop.
void run_alu(const Instruction& instruction, Iterations iterations, const Uop* uops,
             const Accelerator& accelerator, std::int32_t* acc);

}  // namespace edgepipe
