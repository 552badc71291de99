// RtlFpga: an RtlCore behind registers in memory, for a driver in another thread or a QEMU guest.
//
//   RtlFpga fpga(core, registers, interrupt, {});
//   for (;;) if (!fpga.step()) sleep_a_little();
//
// Memory has no side effects, so each word is a copy of a register, made after every step. A word
// that differs from its copy was written by the driver, and that write goes to the core. A driver
// that writes the value that a register has changes nothing on this hardware either, except in
// `error` and `interrupt_status`: those it should clear with all ones.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "device/own_register_map.h"
#include "edgepipe/status.h"
#include "emulation/programmable_logic.h"
#include "emulation/rtl_core.h"

namespace edgepipe {

class RtlFpga final : public ProgrammableLogic {
 public:
  struct Options {
    std::uint32_t cycles_per_step = 10'000;
    std::function<void(const std::string&)> on_event = [](const std::string&) {};  // for a log
  };

  /// Everything is borrowed and must outlive this. `registers` has vta::kBytesWithReset bytes,
  /// 4-byte aligned.
  RtlFpga(RtlCore& core, std::span<std::byte> registers, InterruptLine& interrupt, Options options);

  /// Does what the driver wrote, and runs the accelerator for a while.
  Result<bool> step() override;

  [[nodiscard]] std::uint64_t runs() const override { return runs_; }

 private:
  static constexpr std::size_t kCount = vta::own::kRegisters.size();

  [[nodiscard]] std::uint32_t* word(std::uint32_t offset) const;
  [[nodiscard]] std::uint32_t load(std::uint32_t offset) const;
  bool take_writes();
  bool take_write(std::size_t index);
  void copy(std::size_t index);
  void reset();

  RtlCore& core_;
  const std::span<std::byte> registers_;
  InterruptLine& interrupt_;
  const Options options_;
  std::array<std::uint32_t, kCount> copies_{};
  std::uint64_t runs_ = 0;
  bool line_ = false;
  bool settled_ = false;
};

}  // namespace edgepipe
