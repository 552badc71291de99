// CoreModel: the Verilated accelerator with memory behind its ports, and its registers.
//
//   CoreModel model(arena, costs);
//   model.write(kInsnCount, 812);
//   while (!model.interrupted()) model.cycle();
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "axi_memory.h"

class VtaCoreModel;
class VerilatedContext;
class VerilatedVcdC;

namespace vta_rtl {

class CoreModel {
 public:
  /// Resets the accelerator.
  CoreModel(Arena arena, const MemoryCosts& costs);
  ~CoreModel();
  CoreModel(const CoreModel&) = delete;
  CoreModel& operator=(const CoreModel&) = delete;

  /// One cycle of the clock.
  void cycle();

  /// Reads or writes a register over AXI-Lite, which takes a few cycles.
  [[nodiscard]] std::uint32_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint32_t value);

  [[nodiscard]] bool interrupted() const;

  /// Cycles since the reset began.
  [[nodiscard]] std::uint64_t cycles() const { return cycles_; }

  /// Writes all signals to a file (VCD) from the first cycle on until stop_waveform(). False if the
  /// model was compiled without, or the file cannot be written.
  [[nodiscard]] bool record_waveform(const std::string& path, std::uint64_t first_cycle);
  void stop_waveform();

  [[nodiscard]] AxiMemory& memory() { return memory_; }

 private:
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<VtaCoreModel> core_;
  AxiMemory memory_;
  std::unique_ptr<VerilatedVcdC> waveform_;  // null: none is recorded
  std::uint64_t first_recorded_cycle_ = 0;
  std::uint64_t cycles_ = 0;
};

}  // namespace vta_rtl
