// CoreModel: the Verilated accelerator with memory behind its ports, and its registers.
//
//   CoreModel model(arena, costs);
//   model.write(kInsnCount, 812);
//   while (!model.interrupted()) model.cycle();
#pragma once

#include <cstdint>
#include <memory>

#include "axi_memory.h"

class VtaCoreModel;
class VerilatedContext;

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
  [[nodiscard]] AxiMemory& memory() { return memory_; }

 private:
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<VtaCoreModel> core_;
  AxiMemory memory_;
};

}  // namespace vta_rtl
