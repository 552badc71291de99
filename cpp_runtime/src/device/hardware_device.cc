#include "device/hardware_device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "checker/program_checker.h"
#include "device/run_deadline.h"
#include "device/run_fence.h"
#include "device/vta_registers.h"

namespace edgepipe {
namespace {

constexpr const char* kExamine = "examine the board with `edgepipe doctor`";

// Processes that share the accelerator have it for one run at a time.
constexpr std::chrono::seconds kOthersPatience{60};

constexpr std::array<std::uint32_t, 5> kBases{vta::kInpBase, vta::kWgtBase, vta::kUopBase,
                                              vta::kAccBase, vta::kOutBase};

}  // namespace

Result<std::unique_ptr<HardwareDevice>> HardwareDevice::create(const Accelerator& accelerator,
                                                               Parts parts,
                                                               const Options& options) {
  if (Status status = accelerator.validate(); !status.ok()) return status;
  if (parts.registers == nullptr || parts.memory == nullptr) {
    return Status(Code::kInvalidArgument, "vta: the driver needs registers and memory");
  }
  const FenceLayout layout(accelerator);
  Result<Buffer> fence = parts.memory->allocate(layout.bytes);
  if (!fence.ok()) return fence.status().with_context("vta: run fence");
  std::unique_ptr<HardwareDevice> device(
      new HardwareDevice(accelerator, std::move(parts), options, *std::move(fence)));
  Result<std::unique_ptr<OwnRegisters>> own =
      OwnRegisters::find(*device->parts_.registers, accelerator);
  if (!own.ok()) return own.status();
  device->own_ = *std::move(own);
  const Result<Hold> hold = device->take(Clock::now() + kOthersPatience, nullptr);
  if (!hold.ok()) return hold.status();
  if (Status status = device->prove_idle(); !status.ok()) return status;
  if (device->parts_.sharing != nullptr) {
    device->parts_.memory->before_reuse(device.get(),
                                        [self = device.get()] { return self->settle(); });
  }
  return device;
}

HardwareDevice::~HardwareDevice() {
  if (parts_.sharing != nullptr) parts_.memory->before_reuse(this, {});
}

HardwareDevice::Hold::Hold(HardwareDevice& device, Turns::Turn turn)
    : device_(&device), turn_(std::move(turn)) {
  device_->holder_ = std::this_thread::get_id();
}

HardwareDevice::Hold::~Hold() {
  if (device_ != nullptr) device_->holder_ = std::thread::id();
}

Result<HardwareDevice::Hold> HardwareDevice::take(Clock::time_point deadline,
                                                  std::chrono::nanoseconds* waited) {
  Result<Turns::Turn> turn = turns_.take(deadline, waited);
  if (!turn.ok()) return turn.status();
  Hold hold(*this, *std::move(turn));
  if (parts_.sharing == nullptr) return hold;
  const Clock::time_point began = Clock::now();
  Result<SharedTurns::Turn> shared = parts_.sharing->take(deadline);
  if (waited != nullptr) *waited += Clock::now() - began;
  if (!shared.ok()) return shared.status();
  hold.add(*std::move(shared));
  if (parts_.sharing->interrupted() && !broken_) {
    if (Status status = prove_idle(); !status.ok()) return status;
    ++statistics_.orphans;
  }
  return hold;
}

/// Memory of a process that died in a run may be handed out again, but the accelerator may still
/// write to it: ends that run first.
Status HardwareDevice::settle() {
  if (!parts_.sharing->running() || holder_ == std::this_thread::get_id()) return {};
  return take(Clock::now() + kOthersPatience, nullptr).status();
}

void HardwareDevice::end_run() {
  if (parts_.sharing != nullptr) parts_.sharing->end_run();
}

// An earlier process may have ended in the middle of a run. The memory that it used is about to be
// handed out again, so the accelerator must have stopped.
Status HardwareDevice::prove_idle() {
  if (own_ != nullptr || parts_.reset != nullptr) {
    const Result<Stopped> stopped = stop();
    if (!stopped.ok()) {
      return {Code::kDevice, "vta: cannot be stopped: " + stopped.status().message(), kExamine};
    }
    end_run();
    return {};
  }
  const Clock::time_point deadline = Clock::now() + options_.start_patience;
  const auto fetching = [this] {
    const std::uint32_t control = parts_.registers->read(vta::kFetch + vta::kControl);
    return (control & vta::kStart) != 0 && (control & vta::kIdle) == 0;
  };
  while (fetching() && Clock::now() < deadline) {
    std::this_thread::sleep_for(options_.poll_interval);
  }
  Status busy(Code::kDevice, "vta: still runs a program of an earlier process, or hangs in it",
              "program its bitstream again, then examine the board with `edgepipe doctor`");
  if (fetching()) return busy;
  // The modules work in order: once a program has stored its number, all earlier stores are done.
  const Result<std::vector<InstructionWord>> fence =
      fence_alone(codec_, accelerator_, fence_.device_address());
  if (!fence.ok()) return fence.status().with_context("vta");
  const Result<FencedProgram> program = copy_fenced(*fence);
  if (!program.ok()) return program.status();
  const Status stored =
      run_fenced(*program, {.count = program->count, .time_limit = options_.start_patience});
  return stored.ok() ? stored : busy;
}

HardwareDevice::HardwareDevice(const Accelerator& accelerator, Parts parts, const Options& options,
                               Buffer fence)
    : accelerator_(accelerator),
      codec_(accelerator),
      options_(options),
      parts_(std::move(parts)),
      fence_(std::move(fence)) {}

Status HardwareDevice::prepare_checked(const Submission& submission) {
  const Result<Hold> hold = take(submission.turn_deadline, submission.waited);
  return hold.ok() ? find(submission).status() : hold.status();
}

Status HardwareDevice::run_checked(const Submission& submission) {
  const Result<Hold> hold = take(submission.turn_deadline, submission.waited);
  if (!hold.ok()) return hold.status();
  if (broken_) {
    return {Code::kDevice,
            "vta: hung in an earlier run and cannot be reset; program its "
            "bitstream again",
            kExamine};
  }
  Result<const FencedProgram*> program = find(submission);
  if (!program.ok()) return program.status();
  ++statistics_.runs;
  Status status = run_fenced(**program, submission);
  return status.ok() ? status : recover(status);
}

Status HardwareDevice::run_fenced(const FencedProgram& program, const Submission& submission) {
  write_sequence();
  if (Status status = parts_.memory->maintained(); !status.ok()) return status;
  if (own_ != nullptr) own_->prepare(parts_.memory->extent());
  if (parts_.interrupt != nullptr) {
    if (Status status = parts_.interrupt->arm(); !status.ok()) return status;
  }
  done_was_stale_ = false;
  if (parts_.sharing != nullptr) parts_.sharing->begin_run();
  const Clock::time_point began = Clock::now();
  start(program);
  Status status = wait(submission);
  if (status.ok()) {
    if (submission.ran != nullptr) *submission.ran += Clock::now() - began;
    end_run();
  }
  if (done_was_stale_) ++statistics_.stale_done;
  return status;
}

HardwareDevice::Statistics HardwareDevice::statistics() {
  const Result<Turns::Turn> turn = turns_.take(far_future());
  return statistics_;
}

Result<const HardwareDevice::FencedProgram*> HardwareDevice::find(const Submission& submission) {
  const CheckedProgram& checked = *submission.checked;
  auto found = programs_.find(checked.number);
  if (found == programs_.end()) {
    forget_released(submission.address);
    Result<FencedProgram> fresh = make_fenced(checked);
    if (!fresh.ok()) return fresh.status();
    found = programs_.emplace(checked.number, *std::move(fresh)).first;
  }
  found->second.source = submission.address;
  found->second.source_bytes = checked.words.size() * sizeof(InstructionWord);
  return &found->second;
}

/// Releases the copies of programs that are no longer in memory, or were at the address `replaced`.
void HardwareDevice::forget_released(std::uint64_t replaced) {
  std::erase_if(programs_, [&](const auto& entry) {
    const FencedProgram& program = entry.second;
    return program.source == replaced ||
           !parts_.memory->translate(program.source, program.source_bytes).ok();
  });
}

Result<HardwareDevice::FencedProgram> HardwareDevice::make_fenced(const CheckedProgram& program) {
  Result<std::vector<InstructionWord>> fenced =
      with_fence(codec_, accelerator_, program.words, fence_.device_address());
  if (!fenced.ok()) return fenced.status().with_context("vta");
  return copy_fenced(*fenced);
}

Result<HardwareDevice::FencedProgram> HardwareDevice::copy_fenced(
    std::span<const InstructionWord> fenced) {
  const std::size_t bytes = fenced.size_bytes();
  Result<Buffer> copy = parts_.memory->allocate(bytes);
  if (!copy.ok()) return copy.status().with_context("vta: instructions");
  if (copy->device_address() + bytes > (std::uint64_t{1} << 32)) {
    return Status(Code::kUnsupported, "vta: instructions at " +
                                          std::to_string(copy->device_address()) +
                                          ", but its address register has 32 bits");
  }
  std::memcpy(copy->data(), fenced.data(), bytes);
  parts_.memory->flush(copy->view());
  return FencedProgram{.copy = *std::move(copy),
                       .count = static_cast<std::uint32_t>(fenced.size())};
}

// One byte of the number in each int32 lane; the store writes the low byte of each lane.
void HardwareDevice::write_sequence() {
  const FenceLayout layout(accelerator_);
  ++sequence_;
  for (std::uint32_t lane = 0; lane < accelerator_.out_bytes(); ++lane) {
    const std::uint32_t value = (sequence_ >> (8 * (lane % 4))) & 0xFF;
    std::memcpy(fence_.data() + layout.acc_offset + lane * sizeof value, &value, sizeof value);
  }
  parts_.memory->flush(fence_.view());
}

void HardwareDevice::start(const FencedProgram& program) {
  RegisterFile& registers = *parts_.registers;
  registers.write(vta::kFetchCount, program.count);
  registers.write(vta::kFetchAddress, static_cast<std::uint32_t>(program.copy.device_address()));
  for (const std::uint32_t base : kBases) registers.write(base, 0);
  for (const std::uint32_t block : {vta::kLoad, vta::kCompute, vta::kStore}) {
    registers.write(block + vta::kControl, vta::kStart | vta::kAutoRestart);
  }
  registers.write(vta::kFetch + vta::kControl, vta::kStart);
}

Status HardwareDevice::wait(const Submission& submission) {
  const Clock::time_point deadline = run_deadline(submission.time_limit);
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (now >= deadline) break;
    if (own_ != nullptr) {
      if (const std::string error = own_->error(); !error.empty()) {
        return {Code::kDevice, "vta: aborted: " + error + " in run " +
                                   std::to_string(statistics_.runs) + " of " +
                                   std::to_string(submission.count) + " instructions at " +
                                   std::to_string(submission.address)};
      }
    }
    if (parts_.interrupt == nullptr) {
      if (fence_reached()) return {};
      std::this_thread::sleep_until(std::min(deadline, now + options_.poll_interval));
      continue;
    }
    Result<bool> fired =
        parts_.interrupt->wait(std::min(deadline, now + options_.interrupt_patience));
    if (!fired.ok()) return fired.status();
    if (fence_reached()) {
      if (!*fired) ++statistics_.lost_interrupts;
      return {};
    }
    // A stale interrupt of an abandoned run. The next one may belong to this run.
    if (*fired) {
      if (Status status = parts_.interrupt->arm(); !status.ok()) return status;
      if (fence_reached()) return {};
    }
  }
  if (fence_reached()) return {};
  return {Code::kDeadline, describe_hang(submission)};
}

// Stock hardware has no counters. However, fetch is idle once it has issued every
// instruction to the modules, and a store has ended when its bytes are in memory.
std::string HardwareDevice::describe_hang(const Submission& submission) {
  const auto hex = [this](std::uint32_t offset) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%x", parts_.registers->read(offset));
    return std::string(text.data());
  };
  const bool fetched = (parts_.registers->read(vta::kFetch + vta::kControl) & vta::kIdle) != 0;
  std::string text = "vta: hangs: deadline passed in run " + std::to_string(statistics_.runs) +
                     " of " + std::to_string(submission.count) + " instructions at " +
                     std::to_string(submission.address);
  text += fetched ? "; fetch has issued all of them" : "; fetch has not issued all of them";
  text += stored_sequence() ? ", the last store has ended" : ", the last store has not ended";
  text += "; fetch control " + hex(vta::kFetch + vta::kControl) + " count " +
          hex(vta::kFetchCount) + " address " + hex(vta::kFetchAddress);
  text += ", load control " + hex(vta::kLoad + vta::kControl);
  text += ", compute control " + hex(vta::kCompute + vta::kControl) + " done " + hex(vta::kDone);
  text += ", store control " + hex(vta::kStore + vta::kControl);
  if (own_ == nullptr) return text;
  return text + "; " + own_->counters() + (own_->idle() ? ", idle" : ", not idle");
}

/// Whether the number of this run is in memory.
bool HardwareDevice::stored_sequence() {
  const FenceLayout layout(accelerator_);
  parts_.memory->invalidate(fence_.view());
  const auto* const stored =
      reinterpret_cast<const volatile std::uint8_t*>(fence_.data() + layout.out_offset);
  bool reached = true;
  for (std::uint32_t lane = 0; lane < accelerator_.out_bytes(); ++lane) {
    reached = reached && stored[lane] == ((sequence_ >> (8 * (lane % 4))) & 0xFF);
  }
  return reached;
}

bool HardwareDevice::fence_reached() {
  const bool reached = stored_sequence();
  const bool done = parts_.registers->read(vta::kDone) == 1;
  if (done && !reached) done_was_stale_ = true;
  return done && reached;
}

// Nothing can prove that the accelerator has stopped, so memory that it may write to is not reused.
void HardwareDevice::give_up() {
  broken_ = true;
  parts_.memory->keep_released();
  for (const std::uint32_t block : {vta::kFetch, vta::kLoad, vta::kCompute, vta::kStore}) {
    parts_.registers->write(block + vta::kControl, 0);  // no automatic restart
  }
}

/// Ends whatever runs: by an abort if the device has that, otherwise, or if that fails, by a reset.
Result<HardwareDevice::Stopped> HardwareDevice::stop() {
  Status aborted(Code::kUnsupported, "there is no reset line");
  if (own_ != nullptr) {
    aborted = own_->abort();
    if (aborted.ok()) return Stopped::kByAbort;
  }
  if (parts_.reset == nullptr) return aborted;
  if (Status status = parts_.reset->reset(); !status.ok()) {
    return status.with_context("reset failed");
  }
  return Stopped::kByReset;
}

Status HardwareDevice::recover(const Status& reason) {
  // The program may still be running and must not overlap with the next one.
  if (reason.code() == Code::kDeadline) ++statistics_.hangs;
  const Result<Stopped> stopped = stop();
  if (!stopped.ok()) {
    give_up();
    return {reason.code(), reason.message() + "; " + stopped.status().message(), kExamine};
  }
  end_run();
  const bool reset = *stopped == Stopped::kByReset;
  ++(reset ? statistics_.resets : statistics_.aborts);
  return {reason.code(),
          reason.message() + (reset ? "; the accelerator has been reset"
                                    : "; nothing of the program is left in the accelerator"),
          kExamine};
}

}  // namespace edgepipe
