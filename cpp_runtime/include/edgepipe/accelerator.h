// Accelerator: one VTA build as a value, with the same fields as vta_stages/accelerator.py.
//
//   Result<Accelerator> accelerator = parse_accelerator(json_text);
//   if (accelerator.ok()) use(accelerator->inp_depth());
//
// Nothing is a compile-time constant, so one process can use different accelerators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

/// Revision of the instruction encoding; it also determines how ACC loads treat pads.
enum class Revision {
  k0_0_1,  // 2-bit memory_type and alu_opcode; ACC loads ignore pads
  k0_0_2,  // 3-bit memory_type and alu_opcode; ACC loads honour pads
};

/// The upstream sources that an accelerator is made from. They differ in ALU instructions.
enum class Implementation {
  kUnknown,  // programs should run on both; simulated like kHls
  kHls,      // an immediate's operand is acc[dst]; a negative lane of a vector SHR shifts left
  kChisel,   // an immediate's operand is acc[src]; a vector SHR shifts right by lane & 31
};

/// What an accelerator of our own (vta_rtl) can do beyond upstream's, as bits of a set.
enum class Extension : std::uint32_t {
  kRequantise = 1U << 0,  // an ALU operation that adds, shifts and clips
  kMultiply = 1U << 1,    // an ALU operation that multiplies
  kTable = 1U << 2,     // a table of 256 int8 values for what an ALU operation gives the out buffer
  kLeaky = 1U << 3,     // an ALU operation that does a leaky ReLU
  kClear = 1U << 4,     // ALU instructions with reset, which leave zeros in acc
  kWiden = 1U << 5,     // LOADs of int8 elements into acc
  kPadValue = 1U << 6,  // LOADs with pads that hold something else than zeros
};

/// The memory types of LOAD and STORE, numbered as in the encoding. kTable and kAcc8 need an
/// extension; kAcc8 is the acc buffer, of which DRAM has a byte for each lane.
enum class MemoryType : std::uint32_t {
  kUop = 0,
  kWgt = 1,
  kInp = 2,
  kAcc = 3,
  kOut = 4,
  kTable = 5,
  kAcc8 = 6
};

/// Whether a LOAD of a memory type is a single row.
[[nodiscard]] constexpr bool loads_one_row(MemoryType type) {
  return type == MemoryType::kUop || type == MemoryType::kTable;
}

/// Entries of the table of kTable, one for each int8 value, counted by its bits.
inline constexpr std::uint32_t kTableEntries = 256;

/// The defaults are the stock Ultra96 build 1x16_i8w8a32_15_15_18_17. Inputs, weights and outputs
/// are int8, accumulators int32. Buffer sizes are log2 of bytes.
struct Accelerator {
  Revision revision = Revision::k0_0_1;
  std::uint64_t clock_hz = 333'000'000;
  std::uint32_t batch = 1;
  std::uint32_t block_in = 16;
  std::uint32_t block_out = 16;
  std::uint32_t uop_buffer_bytes_log2 = 15;
  std::uint32_t inp_buffer_bytes_log2 = 15;
  std::uint32_t wgt_buffer_bytes_log2 = 18;
  std::uint32_t acc_buffer_bytes_log2 = 17;
  std::uint32_t acc_hazard_steps = 8;
  std::uint32_t command_queue_depth = 512;
  std::uint32_t token_queue_depth = 1024;
  Implementation implementation = Implementation::kUnknown;
  std::uint32_t load_queue_depth = 0;  // 0: command_queue_depth
  std::uint32_t uop_index_bits = 0;    // 0: as many as the buffer needs
  std::uint32_t extensions = 0;        // a set of Extension

  [[nodiscard]] bool has(Extension extension) const {
    return (extensions & static_cast<std::uint32_t>(extension)) != 0;
  }

  /// Their names, as in an accelerator's JSON, with commas. Allocates.
  [[nodiscard]] std::string extension_names() const;

  // Bytes of one element of each memory type.
  [[nodiscard]] std::uint32_t uop_bytes() const { return 4; }
  [[nodiscard]] std::uint32_t inp_bytes() const { return batch * block_in; }
  [[nodiscard]] std::uint32_t wgt_bytes() const { return block_out * block_in; }
  [[nodiscard]] std::uint32_t acc_bytes() const { return batch * block_out * 4; }
  [[nodiscard]] std::uint32_t out_bytes() const { return batch * block_out; }
  [[nodiscard]] std::uint32_t table_bytes() const { return 4; }

  [[nodiscard]] std::uint32_t element_bytes(MemoryType type) const;

  // Buffer depths in elements. The out buffer has one entry per acc entry.
  [[nodiscard]] std::uint32_t uop_depth() const {
    return (1U << uop_buffer_bytes_log2) / uop_bytes();
  }
  [[nodiscard]] std::uint32_t inp_depth() const {
    return (1U << inp_buffer_bytes_log2) / inp_bytes();
  }
  [[nodiscard]] std::uint32_t wgt_depth() const {
    return (1U << wgt_buffer_bytes_log2) / wgt_bytes();
  }
  [[nodiscard]] std::uint32_t acc_depth() const {
    return (1U << acc_buffer_bytes_log2) / acc_bytes();
  }

  [[nodiscard]] std::uint32_t table_depth() const { return kTableEntries / table_bytes(); }

  [[nodiscard]] std::uint32_t depth(MemoryType type) const;

  /// Instructions that fit between the fetch and the load module.
  [[nodiscard]] std::uint32_t load_commands() const {
    return load_queue_depth != 0 ? load_queue_depth : command_queue_depth;
  }

  /// Bits of a uop's index in an instruction. A buffer may be smaller than they can say.
  [[nodiscard]] std::uint32_t uop_bits() const;

  /// Upstream's name for the configuration, e.g. "1x16_i8w8a32_15_15_18_17"; with rectangular
  /// blocks, which upstream lacks, e.g. "1x32x16_i8w8a32_15_16_18_17". Allocates.
  [[nodiscard]] std::string configuration() const;

  /// kInvalidArgument if no VTA can have these values: a size that is not a power of two, a
  /// buffer smaller than one element, or instruction fields that do not fit in 128 bits.
  [[nodiscard]] Status validate() const;

  bool operator==(const Accelerator&) const = default;
};

/// Reads a JSON object with exactly the fields above (`revision` as "0.0.1" or "0.0.2",
/// `implementation` as "", "hls" or "chisel", `extensions` as a list of names such as "requantise";
/// the last four may be missing) and validates it.
/// kInvalidArgument names the field that is missing, unknown or out of range.
Result<Accelerator> parse_accelerator(std::string_view json);

}  // namespace edgepipe
