// The four files of a VTA stage's program, for its tests.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "stage/program.h"
#include "support/stock_accelerator.h"
#include "support/vta_program.h"

namespace edgepipe::testing {

/// The files of VtaProgram's product: regions consts (uop, weights), x and y.
struct VtaStageFiles {
  VtaStageFiles() {
    VtaProgram p;
    description = {{"format", 1},
                   {"accelerator", stock_accelerator()},
                   {"regions",
                    {{{"name", "consts"}, {"bytes", 512}, {"kind", "const"}},
                     {{"name", "x"}, {"bytes", 16}, {"kind", "input"}},
                     {{"name", "y"}, {"bytes", 16}, {"kind", "output"}}}},
                   {"layers", {{{"name", "dense"}, {"first", 0}, {"count", 7}}}},
                   {"modelled_cycles", 0}};
    const InstructionCodec codec(p.accelerator);
    for (Instruction& i : p.instructions) {
      if (i.opcode == Opcode::kLoad || i.opcode == Opcode::kStore) i.dram_base = 0;
      if (i.memory_type == MemoryType::kWgt) i.dram_base = 1;
      words.push_back(*codec.encode(i));
    }
    relocations = {0, 0, 1, 255, 255, 2, 255};
    constants.assign(512, 0);
    for (std::size_t n = 0; n < 16; ++n) constants[256 + n * 17] = 3;  // y = 3 * x
  }

  /// y = 3 * x, int8[16].
  [[nodiscard]] Result<Program> parse() const {
    const std::string text = description.dump();
    return Program::parse({.description = std::as_bytes(std::span(text)),
                           .instructions = std::as_bytes(std::span(words)),
                           .relocations = std::as_bytes(std::span(relocations)),
                           .constants = std::as_bytes(std::span(constants))});
  }

  nlohmann::json description;
  std::vector<InstructionWord> words;
  std::vector<std::uint8_t> relocations;
  std::vector<std::uint8_t> constants;
};

}  // namespace edgepipe::testing
