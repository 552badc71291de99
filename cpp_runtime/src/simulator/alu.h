// The ALU instruction: MIN, MAX, ADD and SHR on int32 vectors of the acc buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "edgepipe/instruction.h"
#include "isa/instruction_steps.h"

namespace edgepipe {

/// acc[dst] = acc[dst] op (imm or acc[src]), lane by lane, for every step of some iterations of a
/// checked instruction.
/// `acc` is int32[depth][lanes]; `uops` points at the instruction's first uop.
void run_alu(const Instruction& instruction, Iterations iterations, const Uop* uops,
             std::size_t lanes, std::int32_t* acc);

}  // namespace edgepipe
