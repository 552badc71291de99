#include "simulator/simulator.h"

#include <algorithm>
#include <chrono>

#include "checker/program_checker.h"
#include "isa/instruction_steps.h"
#include "simulator/gemm_kernel.h"
#include "simulator/sram.h"

namespace edgepipe {
namespace {

// The clock is read once per this much work: steps of loops, tiles of a transfer.
constexpr std::uint64_t kDeadlineInterval = std::uint64_t{1} << 14;

void transfer(const CheckedInstruction& step, Sram& sram) {
  const Instruction& i = step.instruction;
  if (i.opcode == Opcode::kStore) return sram.store_out(i, step.dram);
  switch (i.memory_type) {
    case MemoryType::kUop:
      return sram.load_uop(i, step.dram);
    case MemoryType::kWgt:
      return sram.load_wgt(i, step.dram);
    case MemoryType::kInp:
      return sram.load_inp(i, step.dram);
    case MemoryType::kTable:
      return sram.load_table(i, step.dram);
    case MemoryType::kAcc:
    case MemoryType::kAcc8:
    case MemoryType::kOut:
      return sram.load_acc(i, step.dram);
  }
}

void compute(const CheckedInstruction& step, Iterations iterations, Sram& sram) {
  const Instruction& i = step.instruction;
  if (i.opcode == Opcode::kAlu && i.reset != 0) return sram.alu_and_clear(i, iterations);
  if (i.opcode == Opcode::kAlu) {
    sram.alu(i, iterations);
  } else if (i.reset != 0) {
    sram.gemm_reset(i, iterations);
  } else {
    sram.gemm(i, iterations);
  }
  if (step.out_is_stored) sram.update_out(i, iterations);
}

/// Steps of one iteration of a GEMM or ALU.
std::uint32_t width_of(const Instruction& i) { return i.uop_end - i.uop_begin; }

/// A rough measure of how long a LOAD or STORE takes: its tiles, limited by the buffer, at least 1.
std::uint64_t work_of_transfer(const Instruction& i) {
  constexpr std::uint64_t kLeast = 64;
  return std::max(kLeast, std::uint64_t{i.x_size} * i.y_size);
}

/// Detects that a run has taken too long, at the cost of an addition.
class RunLimit {
 public:
  explicit RunLimit(std::chrono::nanoseconds limit) : limit_(limit) {}

  /// Whether the time is up, before `work` is done.
  bool passed_before(std::uint64_t work) {
    if (work_ >= kDeadlineInterval) {
      if (Clock::now() - started_ > limit_) return true;
      work_ = 0;
    }
    work_ += work;
    return false;
  }

 private:
  const Clock::time_point started_ = Clock::now();
  const std::chrono::nanoseconds limit_;
  std::uint64_t work_ = kDeadlineInterval;
};

/// Runs a GEMM or ALU in pieces of about kDeadlineInterval steps; false when the time is up.
bool compute_all(const CheckedInstruction& step, Sram& sram, RunLimit& limit) {
  const Instruction& i = step.instruction;
  const std::uint32_t all = all_iterations(i).end;
  const std::uint32_t width = width_of(i);
  if (width == 0) return true;
  const auto piece =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, kDeadlineInterval / width));
  for (std::uint32_t begin = 0; begin < all;) {
    const std::uint32_t end = begin + std::min(piece, all - begin);
    if (limit.passed_before(std::uint64_t{end - begin} * width)) return false;
    compute(step, {.begin = begin, .end = end}, sram);
    begin = end;
  }
  return true;
}

/// False when the time is up.
bool execute(const CheckedInstruction& step, Sram& sram, RunLimit& limit) {
  switch (step.instruction.opcode) {
    case Opcode::kLoad:
    case Opcode::kStore:
      if (limit.passed_before(work_of_transfer(step.instruction))) return false;
      transfer(step, sram);
      return true;
    case Opcode::kGemm:
    case Opcode::kAlu:
      return compute_all(step, sram, limit);
    case Opcode::kFinish:
      return !limit.passed_before(0);
  }
  return true;
}

}  // namespace

class Simulator::Impl {
 public:
  Impl(const Accelerator& accelerator, DeviceMemory& memory, const GemmKernel& kernel)
      : accelerator_(accelerator), memory_(memory), sram_(accelerator, kernel) {}

  Status run(const Submission& submission) {
    const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline, submission.waited);
    return turn.ok() ? execute_all(*submission.checked, submission) : turn.status();
  }

  const Accelerator accelerator_;
  DeviceMemory& memory_;

 private:
  Status execute_all(const CheckedProgram& program, const Submission& submission) {
    const Clock::time_point began = Clock::now();
    RunLimit limit(submission.time_limit);
    for (std::size_t n = 0; n < program.steps.size(); ++n) {
      if (execute(program.steps[n], sram_, limit)) continue;
      return {Code::kDeadline, "simulator: deadline passed after " + std::to_string(n) + " of " +
                                   std::to_string(program.steps.size()) + " instructions, in " +
                                   disassemble(program.steps[n].instruction)};
    }
    if (submission.ran != nullptr) *submission.ran += Clock::now() - began;
    return {};
  }

  Turns turns_;
  Sram sram_;  // protected by turns_
};

Result<std::unique_ptr<Simulator>> Simulator::create(const Accelerator& accelerator,
                                                     DeviceMemory& memory, const Options& options) {
  if (Status status = accelerator.validate(); !status.ok()) return status;
  std::string known;
  for (const GemmKernel& kernel : gemm_kernels(accelerator)) {
    if (options.kernel.empty() || options.kernel == kernel.name) {
      return std::unique_ptr<Simulator>(
          new Simulator(std::make_unique<Impl>(accelerator, memory, kernel)));
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
Status Simulator::run_checked(const Submission& submission) { return impl_->run(submission); }

}  // namespace edgepipe
