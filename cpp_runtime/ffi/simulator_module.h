// open_simulator: the simulator with its own memory, as functions.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <cstdint>
#include <string>

namespace edgepipe::binding {

/// Creates a simulator from an accelerator's JSON; an empty `kernel` means the fastest. Its
/// functions, for one thread at a time:
///
///   allocate(bytes) -> address, free(address)      zeroed device memory
///   write(address, array), read(address, tensor)   inside one allocation
///   run(address, count, timeout_s, ranges)         count instructions; 0 s: no limit
///
/// `ranges` is JSON: [[address, bytes, kind of region], ...], all that the program may access, or
/// [] for all memory.
tvm::ffi::Module open_simulator(const std::string& accelerator_json, const std::string& kernel,
                                std::int64_t arena_bytes, std::int64_t base_address);

/// The kernels and the instruction table for an accelerator, as JSON:
/// {"kernels": [...], "instructions": {opcode: [[field, word, bit, bits], ...]}}.
std::string describe_accelerator(const std::string& accelerator_json);

/// The cycles of a program, an array of instructions, by the costs of a JSON object with all keys
/// of a board's [timing] table. See program_timing.h.
std::int64_t modelled_cycles(const std::string& accelerator_json, const std::string& timing_json,
                             tvm::ffi::AnyView program);

}  // namespace edgepipe::binding
