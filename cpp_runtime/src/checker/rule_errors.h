// RuleErrors: the error messages for instructions that break a rule of the hardware.
//
//   RuleErrors errors(layers, program);
//   errors.at(7);
//   return errors.uninitialised("inp", 3);
//   // instruction 7 (layer conv1) GEMM ...: reads inp entry 3, which nothing has written
//
// Every error is kDevice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checker/dram_ledger.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"

namespace edgepipe {

class RuleErrors {
 public:
  /// Both are borrowed; `program` may grow later.
  RuleErrors(std::span<const LayerRange> layers, const std::vector<Instruction>& program)
      : layers_(layers), program_(program) {}

  /// Sets the instruction of the following errors.
  void at(std::uint32_t index) { index_ = index; }

  /// The number and layer of an instruction.
  [[nodiscard]] std::string place(std::uint32_t index) const;

  [[nodiscard]] Status broken(const std::string& what) const;
  [[nodiscard]] Status uninitialised(const std::string& buffer, std::uint32_t entry) const;
  [[nodiscard]] Status out_of_range(const std::string& buffer, std::uint32_t entry,
                                    std::size_t depth) const;
  [[nodiscard]] Status hazard(std::uint32_t entry, std::uint64_t distance_steps,
                              std::uint64_t needed_steps) const;

  /// No token orders it relative to instruction `sequence`, counted from 1, of the other module.
  [[nodiscard]] Status race(const std::string& what, Module other, std::uint32_t sequence,
                            const std::string& does) const;
  [[nodiscard]] Status dram_conflict(const DramLedger::Conflict& conflict) const;

 private:
  [[nodiscard]] std::string text(std::uint32_t index) const;
  [[nodiscard]] std::string other_text(Module module, std::uint32_t sequence) const;

  std::span<const LayerRange> layers_;
  const std::vector<Instruction>& program_;
  std::uint32_t index_ = 0;
};

}  // namespace edgepipe
