#include "simulator/simulator.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <span>

#include "edgepipe/device.h"
#include "simulator/gemm_kernel.h"
#include "simulator/program_checker.h"
#include "simulator/sram.h"

namespace edgepipe {
namespace {

void execute(const CheckedInstruction& step, Sram& sram) {
  const Instruction& i = step.instruction;
  switch (i.opcode) {
    case Opcode::kLoad:
      switch (i.memory_type) {
        case MemoryType::kUop:
          return sram.load_uop(i, step.dram);
        case MemoryType::kWgt:
          return sram.load_wgt(i, step.dram);
        case MemoryType::kInp:
          return sram.load_inp(i, step.dram);
        case MemoryType::kAcc:
        case MemoryType::kOut:
          return sram.load_acc(i, step.dram);
      }
      return;
    case Opcode::kStore:
      return sram.store_out(i, step.dram);
    case Opcode::kGemm:
      i.reset != 0 ? sram.gemm_reset(i) : sram.gemm(i);
      break;
    case Opcode::kAlu:
      sram.alu(i);
      break;
    case Opcode::kFinish:
      return;
  }
  if (step.out_is_stored) sram.update_out(i);
}

/// How long an instruction takes, roughly: steps of a GEMM or ALU loop, and never nothing.
std::uint64_t work_of(const Instruction& i) {
  constexpr std::uint64_t kLeast = 64;
  const std::uint64_t steps =
      std::uint64_t{i.iter_out} * i.iter_in * (std::uint64_t{i.uop_end} - i.uop_begin);
  return std::max(kLeast, steps);
}

}  // namespace

class Simulator::Impl {
 public:
  Impl(const Accelerator& accelerator, DeviceMemory& memory, const GemmKernel& kernel,
       std::size_t capacity)
      : accelerator_(accelerator),
        memory_(memory),
        sram_(accelerator, kernel),
        capacity_(capacity) {}

  Status prepare(const Submission& submission) {
    const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline);
    return turn.ok() ? find(submission).status() : turn.status();
  }

  Status run(const Submission& submission) {
    const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline);
    if (!turn.ok()) return turn.status();
    Result<const CheckedProgram*> program = find(submission);
    if (!program.ok()) return program.status();
    return execute_all(**program, submission);
  }

  const Accelerator accelerator_;
  DeviceMemory& memory_;

 private:
  // The clock is read once per this much work.
  static constexpr std::uint64_t kDeadlineInterval = std::uint64_t{1} << 14;

  Result<std::span<const InstructionWord>> read_instructions(const Submission& submission) const {
    if (submission.address % sizeof(InstructionWord) != 0) {
      return Status(Code::kDevice, "the instructions' address " +
                                       std::to_string(submission.address) +
                                       " is not a multiple of 16");
    }
    Result<std::byte*> pointer = memory_.translate(
        submission.address, std::size_t{submission.count} * sizeof(InstructionWord));
    if (!pointer.ok()) return pointer.status().with_context("instructions");
    return std::span(reinterpret_cast<const InstructionWord*>(*pointer), submission.count);
  }

  // The verdict on these instructions: a cached one if it still holds, otherwise a new one.
  Result<const CheckedProgram*> find(const Submission& submission) {
    Result<std::span<const InstructionWord>> instructions = read_instructions(submission);
    if (!instructions.ok()) return instructions.status();
    const std::span<const InstructionWord> words = *instructions;
    for (auto entry = programs_.begin(); entry != programs_.end(); ++entry) {
      if (entry->words.size() != words.size() ||
          std::memcmp(entry->words.data(), words.data(), words.size_bytes()) != 0) {
        continue;
      }
      if (entry->refresh(accelerator_, memory_)) {
        programs_.splice(programs_.begin(), programs_, entry);
        return &programs_.front();
      }
      programs_.erase(entry);
      break;
    }
    const auto like = std::find_if(programs_.begin(), programs_.end(), [&](const auto& entry) {
      return entry.words.size() == words.size();
    });
    Result<CheckedProgram> fresh = check_program(accelerator_, memory_, words, submission.layers,
                                                 like == programs_.end() ? nullptr : &*like);
    if (!fresh.ok()) return fresh.status();
    if (programs_.size() >= capacity_) programs_.pop_back();
    programs_.push_front(*std::move(fresh));
    return &programs_.front();
  }

  Status execute_all(const CheckedProgram& program, const Submission& submission) {
    const Clock::time_point started = Clock::now();
    std::uint64_t work = kDeadlineInterval;
    for (std::size_t n = 0; n < program.steps.size(); ++n) {
      if (work >= kDeadlineInterval && Clock::now() - started > submission.time_limit) {
        return {Code::kDeadline, "simulator: deadline passed after " + std::to_string(n) + " of " +
                                     std::to_string(program.steps.size()) +
                                     " instructions, before " +
                                     disassemble(program.steps[n].instruction)};
      }
      if (work >= kDeadlineInterval) work = 0;
      execute(program.steps[n], sram_);
      work += work_of(program.steps[n].instruction);
    }
    return {};
  }

  Turns turns_;
  Sram sram_;                           // protected by turns_
  std::list<CheckedProgram> programs_;  // the same; most recently used first
  const std::size_t capacity_;
};

Result<std::unique_ptr<Simulator>> Simulator::create(const Accelerator& accelerator,
                                                     DeviceMemory& memory, const Options& options) {
  if (Status status = accelerator.validate(); !status.ok()) return status;
  std::string known;
  for (const GemmKernel& kernel : gemm_kernels(accelerator)) {
    if (options.kernel.empty() || options.kernel == kernel.name) {
      return std::unique_ptr<Simulator>(new Simulator(std::make_unique<Impl>(
          accelerator, memory, kernel, std::max<std::size_t>(options.checked_programs, 1))));
    }
    known += (known.empty() ? "" : ", ") + std::string(kernel.name);
  }
  return Status(Code::kUnsupported, "simulator: kernel '" + options.kernel +
                                        "' cannot run here for " + accelerator.configuration() +
                                        ", expected one of " + known);
}

std::vector<std::string> Simulator::kernel_names(const Accelerator& accelerator) {
  std::vector<std::string> names;
  for (const GemmKernel& kernel : gemm_kernels(accelerator)) names.emplace_back(kernel.name);
  return names;
}

Simulator::Simulator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Simulator::~Simulator() = default;
const Accelerator& Simulator::accelerator() const { return impl_->accelerator_; }
DeviceMemory& Simulator::memory() { return impl_->memory_; }
Status Simulator::prepare(const Submission& submission) { return impl_->prepare(submission); }
Status Simulator::run(const Submission& submission) { return impl_->run(submission); }

}  // namespace edgepipe
