#include "simulator/simulator.h"

#include <algorithm>

#include "checker/program_checker.h"
#include "simulator/gemm_kernel.h"
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
  Impl(const Accelerator& accelerator, DeviceMemory& memory, const GemmKernel& kernel)
      : accelerator_(accelerator), memory_(memory), sram_(accelerator, kernel) {}

  Status run(const Submission& submission) {
    const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline);
    return turn.ok() ? execute_all(*submission.checked, submission) : turn.status();
  }

  const Accelerator accelerator_;
  DeviceMemory& memory_;

 private:
  // The clock is read once per this much work.
  static constexpr std::uint64_t kDeadlineInterval = std::uint64_t{1} << 14;

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
