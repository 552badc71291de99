#include "checker/rule_errors.h"

namespace edgepipe {

std::string RuleErrors::place(std::uint32_t index) const {
  for (const LayerRange& layer : layers_) {
    if (index >= layer.first && index - layer.first < layer.count) {
      return "instruction " + std::to_string(index) + " (layer " + layer.name + ")";
    }
  }
  return "instruction " + std::to_string(index);
}

std::string RuleErrors::text(std::uint32_t index) const {
  return place(index) + " " + disassemble(program_[index]);
}

std::string RuleErrors::other_text(Module module, std::uint32_t sequence) const {
  std::uint32_t index = 0;
  for (std::uint32_t seen = 0; index < program_.size(); ++index) {
    if (module_of(program_[index]) == module && ++seen == sequence) break;
  }
  return text(index);
}

Status RuleErrors::broken(const std::string& what) const {
  return {Code::kDevice, text(index_) + ": " + what};
}

Status RuleErrors::uninitialised(const std::string& buffer, std::uint32_t entry) const {
  return broken("reads " + buffer + " entry " + std::to_string(entry) +
                ", which nothing has written");
}

Status RuleErrors::out_of_range(const std::string& buffer, std::uint32_t entry,
                                std::size_t depth) const {
  return broken(buffer + " entry " + std::to_string(entry) + ", the buffer has " +
                std::to_string(depth));
}

Status RuleErrors::hazard(std::uint32_t entry, std::uint64_t distance_steps,
                          std::uint64_t needed_steps) const {
  return broken(
      "acc entry " + std::to_string(entry) + " is used " + std::to_string(distance_steps) +
      " steps after this instruction wrote it, the pipeline needs " + std::to_string(needed_steps));
}

Status RuleErrors::race(const std::string& what, Module other, std::uint32_t sequence,
                        const std::string& does) const {
  return broken(what + " while " + other_text(other, sequence) + " " + does +
                "; no token orders the two");
}

Status RuleErrors::dram_conflict(const DramLedger::Conflict& conflict) const {
  const bool store = program_[index_].opcode == Opcode::kStore;
  const std::string what = std::string(store ? "writes" : "reads") + " device memory at " +
                           std::to_string(conflict.address);
  const std::string does = store ? "reads it" : "writes it";
  if (!conflict.uop) return race(what, conflict.other, conflict.sequence, does);
  return broken(what + ", " + other_text(conflict.other, conflict.sequence) + " " + does +
                "; a program must not write its own uops");
}

}  // namespace edgepipe
