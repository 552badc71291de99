// Relocating a raw program: one whose addresses count from the start of a memory image.
//
// Programs of bundles have regions and are relocated by program.h; this serves test vectors and
// bring-up, where instructions come with an image of the memory they work on.
#pragma once

#include <cstdint>
#include <span>

#include "edgepipe/accelerator.h"
#include "edgepipe/status.h"
#include "isa/instruction.h"

namespace edgepipe {

/// Adds the image's device address to the dram_base of every LOAD and STORE, in place. The address
/// is a multiple of the largest element's bytes. kDevice for a word that is no instruction,
/// kInvalidArgument when an address does not fit its field; both name the instruction.
Status relocate_image(const Accelerator& accelerator, std::uint64_t address,
                      std::span<InstructionWord> program);

}  // namespace edgepipe
