#include "emulation/rtl_fpga.h"

#include <atomic>
#include <cassert>
#include <utility>

#include "device/vta_registers.h"

namespace edgepipe {

namespace own = vta::own;

namespace {

consteval std::size_t index_of(std::uint32_t offset) {
  std::size_t index = 0;
  while (own::kRegisters[index].offset != offset) ++index;
  return index;
}

constexpr std::size_t kStart = index_of(vta::kFetch + vta::kControl);
constexpr std::size_t kDone = index_of(vta::kDone);
constexpr std::size_t kCommand = index_of(own::kCommand);

}  // namespace

RtlFpga::RtlFpga(RtlCore& core, std::span<std::byte> registers, InterruptLine& interrupt,
                 Options options)
    : core_(core), registers_(registers), interrupt_(interrupt), options_(std::move(options)) {
  assert(registers.size() >= vta::kBytesWithReset);
  reset();
}

Result<bool> RtlFpga::step() {
  const std::uint32_t request = load(vta::kResetRequest);
  if (request != load(vta::kResetAcknowledge)) {
    core_.reset();
    reset();
    options_.on_event("reset after run " + std::to_string(runs_));
    std::atomic_ref(*word(vta::kResetAcknowledge)).store(request, std::memory_order_release);
    return true;
  }
  bool worked = take_writes();
  if ((core_.read(own::kState) & own::kStateIdle) == 0) worked = true;
  // Registers also change while they are read, so they are copied once more when nothing runs.
  if (!worked && settled_) return false;
  settled_ = !worked;
  const bool line = core_.run(worked ? options_.cycles_per_step : 1);
  for (std::size_t index = 0; index < kCount; ++index) copy(index);
  if (line != line_) {
    line_ = line;
    if (Status status = interrupt_.set(line); !status.ok()) return status;
  }
  return worked;
}

/// The start comes after what was written before it. A command comes last: a driver that gives one
/// waits until it has been taken, so a start beside it was written first.
bool RtlFpga::take_writes() {
  const bool commands = load(own::kCommand) != copies_[kCommand];
  const bool starts = load(vta::kFetch + vta::kControl) != copies_[kStart];
  bool took = false;
  for (std::size_t index = 0; index < kCount; ++index) {
    if (index != kStart && index != kCommand) took = take_write(index) || took;
  }
  if (starts && take_write(kStart)) {
    ++runs_;
    // A start clears done. A driver that polls must not find that of the run before beside this
    // run's results: its next start would not differ from this one, which the word still shows.
    copy(kDone);
  }
  if (commands) take_write(kCommand);
  return took || starts || commands;
}

/// Whether the driver has written the register. What it wrote to a status register is undone.
bool RtlFpga::take_write(std::size_t index) {
  const own::Register& target = own::kRegisters[index];
  const std::uint32_t value = load(target.offset);
  if (value == copies_[index]) return false;
  if (target.written) core_.write(target.offset, value);
  copies_[index] = value;
  return target.written;
}

/// Shows the register's value, unless the driver has written another one meanwhile.
void RtlFpga::copy(std::size_t index) {
  const std::uint32_t offset = own::kRegisters[index].offset;
  const std::uint32_t value = core_.read(offset);
  std::uint32_t expected = copies_[index];
  if (value != expected &&
      std::atomic_ref(*word(offset)).compare_exchange_strong(expected, value)) {
    copies_[index] = value;
  }
}

void RtlFpga::reset() {
  for (std::size_t index = 0; index < kCount; ++index) {
    copies_[index] = core_.read(own::kRegisters[index].offset);
    std::atomic_ref(*word(own::kRegisters[index].offset))
        .store(copies_[index], std::memory_order_release);
  }
}

std::uint32_t* RtlFpga::word(std::uint32_t offset) const {
  return reinterpret_cast<std::uint32_t*>(registers_.data() + offset);
}

std::uint32_t RtlFpga::load(std::uint32_t offset) const {
  return std::atomic_ref(*word(offset)).load(std::memory_order_acquire);
}

}  // namespace edgepipe
