#include "checker/program_gate.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

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
    if (std::optional<Pass> known = find(accelerator, memory, *words, request)) {
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
  forget_released(memory);
  verdicts_.push_front({.program = *std::move(fresh)});
  put(request.address, verdicts_.begin());
  return enter(verdicts_.front());
}

std::optional<ProgramGate::Pass> ProgramGate::find(const Accelerator& accelerator,
                                                   const DeviceMemory& memory,
                                                   std::span<const InstructionWord> words,
                                                   const Request& request) {
  // Pointers into moved allocations are looked up again, but never under a running program.
  const auto suits = [&](const Verdict& verdict) {
    const CheckedProgram& program = verdict.program;
    const bool moved = program.memory_generation != memory.generation();
    return same_words(program, words) && std::ranges::equal(program.ranges, request.ranges) &&
           !(moved && verdict.users != 0);
  };
  const auto here = at_.find(request.address);
  const bool known_here = here != at_.end() && suits(*here->second);
  const Place verdict = known_here ? here->second : std::ranges::find_if(verdicts_, suits);
  if (verdict == verdicts_.end()) return std::nullopt;
  if (verdict->program.refresh(accelerator, memory)) {
    if (!known_here) put(request.address, verdict);
    return enter(*verdict);
  }
  if (verdict->users == 0) {
    std::erase_if(at_, [&](const auto& entry) { return entry.second == verdict; });
    verdicts_.erase(verdict);
  }
  return std::nullopt;
}

/// Notes that the instructions of `verdict` are at `address`, in place of any other program's.
void ProgramGate::put(std::uint64_t address, Place verdict) {
  ++verdict->addresses;
  const auto [entry, fresh] = at_.try_emplace(address, verdict);
  if (!fresh) leave(std::exchange(entry->second, verdict));
}

/// Notes that an address of `verdict` has other instructions, and forgets it if that was the last.
void ProgramGate::leave(Place verdict) {
  if (--verdict->addresses == 0 && verdict->users == 0) verdicts_.erase(verdict);
}

void ProgramGate::forget_released(const DeviceMemory& memory) {
  for (auto entry = at_.begin(); entry != at_.end();) {
    const std::size_t bytes = entry->second->program.words.size() * sizeof(InstructionWord);
    if (memory.translate(entry->first, bytes).ok()) {
      ++entry;
      continue;
    }
    leave(entry->second);
    entry = at_.erase(entry);
  }
}

std::size_t ProgramGate::programs() {
  MutexLock lock(mutex_);
  return verdicts_.size();
}

ProgramGate::Pass ProgramGate::enter(Verdict& verdict) {
  ++verdict.users;
  return {this, &verdict};
}

void ProgramGate::end(Verdict& verdict) {
  MutexLock lock(mutex_);
  if (--verdict.users > 0 || verdict.addresses > 0) return;
  verdicts_.remove_if([&](const Verdict& each) { return &each == &verdict; });
}

}  // namespace edgepipe
