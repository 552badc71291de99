#include "emulation/fpga_model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <charconv>
#include <cstring>
#include <thread>
#include <utility>

#include "base/precise_sleep.h"
#include "device/vta_registers.h"
#include "edgepipe/instruction.h"

namespace edgepipe {
namespace {

constexpr std::array<std::pair<std::string_view, FaultKind>, 4> kFaultNames{{
    {"hang", FaultKind::kHang},
    {"stale-done", FaultKind::kStaleDone},
    {"lost-interrupt", FaultKind::kLostInterrupt},
    {"wrong-bit", FaultKind::kWrongBit},
}};

struct BaseRegister {
  std::string_view name;
  std::uint32_t offset;
};
constexpr std::array<BaseRegister, 5> kBases{{{"inp_addr", vta::kInpBase},
                                              {"wgt_addr", vta::kWgtBase},
                                              {"uop_addr", vta::kUopBase},
                                              {"bias_addr", vta::kAccBase},
                                              {"out_addr", vta::kOutBase}}};

}  // namespace

Result<Fault> parse_fault(const std::string& text) {
  const std::size_t equals = text.find('=');
  for (const auto& [name, kind] : kFaultNames) {
    if (equals == std::string::npos || text.substr(0, equals) != name) continue;
    Fault fault{.kind = kind, .every_runs = 0};
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + equals + 1, end, fault.every_runs);
    if (parsed.ec == std::errc() && parsed.ptr == end && fault.every_runs > 0) return fault;
  }
  return Status(Code::kInvalidArgument,
                "fault '" + text +
                    "' is unknown, expected hang=N, stale-done=N, lost-interrupt=N or wrong-bit=N",
                "N is a whole number from 1 up: every N-th run has the fault");
}

FpgaModel::FpgaModel(Device& device, std::span<std::byte> registers, InterruptLine& interrupt,
                     Options options)
    : device_(device), registers_(registers), interrupt_(interrupt), options_(std::move(options)) {
  assert(registers.size() >= vta::kBytesWithReset);
  if (options_.timing) times_.emplace(device.accelerator(), *options_.timing);
}

Result<bool> FpgaModel::step() {
  if (read(vta::kResetRequest) != read(vta::kResetAcknowledge)) {
    reset();
    return true;
  }
  if (hung_ || (read(vta::kFetch + vta::kControl) & vta::kStart) == 0) return false;
  // Fetch fills queues that are not emptied until the other blocks are started.
  for (const std::uint32_t block : {vta::kLoad, vta::kCompute, vta::kStore}) {
    if ((read(block + vta::kControl) & vta::kStart) == 0) return false;
  }
  if (Status status = run(); !status.ok()) return status;
  return true;
}

Status FpgaModel::run() {
  const Clock::time_point began = Clock::now();
  ++runs_;
  write(vta::kFetch + vta::kControl, 0);  // started: clears the start bit and idle
  if (due(FaultKind::kStaleDone)) std::this_thread::sleep_for(options_.stale_done);
  write(vta::kDone, 0);
  if (due(FaultKind::kHang)) {
    options_.on_event("run " + std::to_string(runs_) + ": injected hang");
    hung_ = true;
    return {};
  }
  Status status = execute();
  if (status.ok() && times_) status = wait_for_end(began);
  if (!status.ok()) {
    // Hardware cannot refuse a program, and its behaviour would be undefined, so the model hangs.
    options_.on_event("run " + std::to_string(runs_) + ": " + status.message());
    hung_ = true;
    return {};
  }
  // Done comes last: a driver that polls it starts the next run at once, and idle would then
  // replace its start bit.
  write(vta::kFetch + vta::kControl, vta::kIdle);
  write(vta::kDone, 1);
  if (due(FaultKind::kLostInterrupt)) {
    options_.on_event("run " + std::to_string(runs_) + ": injected lost interrupt");
    return {};
  }
  return interrupt_.pulse();
}

Status FpgaModel::execute() {
  for (const BaseRegister& base : kBases) {
    if (const std::uint32_t value = read(base.offset); value != 0) {
      return {Code::kUnsupported,
              std::string(base.name) + " is " + std::to_string(value) + ", expected 0"};
    }
  }
  Status status =
      device_.run({.address = read(vta::kFetchAddress), .count = read(vta::kFetchCount)});
  return status.ok() && due(FaultKind::kWrongBit) ? invert_stored_bit() : status;
}

Status FpgaModel::invert_stored_bit() {
  const std::uint64_t program = read(vta::kFetchAddress);
  const InstructionCodec codec(device_.accelerator());
  bool fence = true;  // the last STORE is the driver's own
  // Backwards: what earlier instructions store may be for the program itself.
  for (std::uint64_t left = read(vta::kFetchCount); left > 0; --left) {
    InstructionWord word;
    const Result<std::byte*> at =
        device_.memory().translate(program + (left - 1) * sizeof word, sizeof word);
    if (!at.ok()) return at.status();
    std::memcpy(&word, *at, sizeof word);
    const Result<Instruction> instruction = codec.decode(word);
    if (!instruction.ok()) return instruction.status();
    if (instruction->opcode != Opcode::kStore || std::exchange(fence, false)) continue;
    const std::uint64_t address =
        std::uint64_t{instruction->dram_base} * device_.accelerator().out_bytes();
    const Result<std::byte*> stored = device_.memory().translate(address, 1);
    if (!stored.ok()) return stored.status();
    **stored ^= std::byte{1};
    options_.on_event("run " + std::to_string(runs_) + ": injected wrong bit");
    return {};
  }
  return {};
}

Status FpgaModel::wait_for_end(Clock::time_point began) {
  program_.resize(read(vta::kFetchCount));
  const std::size_t bytes = program_.size() * sizeof(InstructionWord);
  const Result<std::byte*> at = device_.memory().translate(read(vta::kFetchAddress), bytes);
  if (!at.ok()) return at.status();
  std::memcpy(program_.data(), *at, bytes);
  const Result<std::chrono::nanoseconds> time = times_->of(program_);
  if (!time.ok()) return time.status();
  precise_sleep_until(began + *time);
  return {};
}

void FpgaModel::reset() {
  const std::uint32_t request = read(vta::kResetRequest);
  for (std::uint32_t offset = 0; offset < vta::kBytes; offset += 4) write(offset, 0);
  write(vta::kFetch + vta::kControl, vta::kIdle);
  hung_ = false;
  options_.on_event("reset after run " + std::to_string(runs_));
  write(vta::kResetAcknowledge, request);
}

bool FpgaModel::due(FaultKind kind) const {
  return std::any_of(options_.faults.begin(), options_.faults.end(), [&](const Fault& fault) {
    return fault.kind == kind && runs_ % fault.every_runs == 0;
  });
}

// Acquire and release: data written before a register access is visible after it, in both
// directions.
std::uint32_t FpgaModel::read(std::uint32_t offset) const {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(registers_.data() + offset))
      .load(std::memory_order_acquire);
}

void FpgaModel::write(std::uint32_t offset, std::uint32_t value) {
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(registers_.data() + offset))
      .store(value, std::memory_order_release);
}

}  // namespace edgepipe
