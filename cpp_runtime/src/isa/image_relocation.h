// Relocates a raw program, whose addresses are relative to the start of a memory image.
//
// Programs in bundles have regions and are relocated by program.h. This file is for test vectors
// and bring-up, where instructions come with an image of the memory that they use.
#pragma once

#include <cstdint>
#include <span>

#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Adds the image's device address to the dram_base of every LOAD and STORE, in place. The address
/// is a multiple of the largest element's bytes. kDevice for a word that is not an
/// instruction, kInvalidArgument if an address does not fit its field; both name the instruction.
Status relocate_image(const Accelerator& accelerator, std::uint64_t address,
                      std::span<InstructionWord> program);

}  // namespace edgepipe
