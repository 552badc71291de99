#include "checker/program_gate.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

namespace edgepipe {
namespace {

bool same_words(const CheckedProgram& program, std::span<const InstructionWord> words) {
  return program.words.size() == words.size() &&
         std::memcmp(program.words.data(), words.data(), words.size_bytes()) == 0;
}

Result<std::span<const InstructionWord>> read_instructions(const DeviceMemory& memory,
                                                           const ProgramGate::Request& request) {
  if (request.address % sizeof(InstructionWord) != 0) {
    return Status(Code::kDevice, "the instructions' address " + std::to_string(request.address) +
                                     " is not a multiple of 16");
  }
  Result<std::byte*> pointer =
      memory.translate(request.address, std::size_t{request.count} * sizeof(InstructionWord));
  if (!pointer.ok()) return pointer.status().with_context("instructions");
  return std::span(reinterpret_cast<const InstructionWord*>(*pointer), request.count);
}

}  // namespace

Result<ProgramGate::Pass> ProgramGate::admit(const Accelerator& accelerator,
                                             const DeviceMemory& memory, const Request& request) {
  const Result<std::span<const InstructionWord>> words = read_instructions(memory, request);
  if (!words.ok()) return words.status();
  std::optional<Pass> like;
  {
    MutexLock lock(mutex_);
    if (std::optional<Pass> known = find(accelerator, memory, *words, request.ranges)) {
      return *std::move(known);
    }
    const auto copy = std::ranges::find_if(verdicts_, [&](const Verdict& verdict) {
      return verdict.program.words.size() == words->size();
    });
    if (copy != verdicts_.end()) like.emplace(enter(*copy));
  }
  Result<CheckedProgram> fresh = check_program(
      accelerator, memory, *words,
      {.layers = request.layers, .ranges = request.ranges, .like = like ? &**like : nullptr});
  like.reset();
  if (!fresh.ok()) return fresh.status();
  MutexLock lock(mutex_);
  verdicts_.push_front({.program = *std::move(fresh)});
  if (verdicts_.size() > kKept) {
    const auto oldest = std::find_if(verdicts_.rbegin(), std::prev(verdicts_.rend()),
                                     [](const Verdict& verdict) { return verdict.users == 0; });
    if (oldest != std::prev(verdicts_.rend())) verdicts_.erase(std::next(oldest).base());
  }
  return enter(verdicts_.front());
}

std::optional<ProgramGate::Pass> ProgramGate::find(const Accelerator& accelerator,
                                                   const DeviceMemory& memory,
                                                   std::span<const InstructionWord> words,
                                                   std::span<const MemoryRange> ranges) {
  for (auto verdict = verdicts_.begin(); verdict != verdicts_.end(); ++verdict) {
    CheckedProgram& program = verdict->program;
    if (!same_words(program, words) || !std::ranges::equal(program.ranges, ranges)) continue;
    // Pointers into moved allocations are looked up again, but never under a running program.
    const bool moved = program.memory_generation != memory.generation();
    if (moved && verdict->users != 0) continue;
    if (program.refresh(accelerator, memory)) {
      verdicts_.splice(verdicts_.begin(), verdicts_, verdict);
      return enter(*verdict);
    }
    if (verdict->users == 0) verdicts_.erase(verdict);
    break;
  }
  return std::nullopt;
}

ProgramGate::Pass ProgramGate::enter(Verdict& verdict) {
  ++verdict.users;
  return {this, &verdict};
}

void ProgramGate::end(Verdict& verdict) {
  MutexLock lock(mutex_);
  --verdict.users;
}

}  // namespace edgepipe
