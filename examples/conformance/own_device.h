// OwnDevice: your own VTA: an interpreter that runs a program's instructions in order.
#pragma once

#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/instruction.h"

class OwnDevice final : public edgepipe::Device {
 public:
  /// `memory` is borrowed and outlives the device.
  OwnDevice(const edgepipe::Accelerator& accelerator, edgepipe::DeviceMemory& memory);

  const edgepipe::Accelerator& accelerator() const override { return accelerator_; }
  edgepipe::DeviceMemory& memory() override { return memory_; }

 private:
  /// Runs a program that Device::run has checked.
  edgepipe::Status run_checked(const edgepipe::Submission& submission) override;

  edgepipe::Status execute(const edgepipe::Instruction& instruction);
  edgepipe::Status load(const edgepipe::Instruction& instruction);
  edgepipe::Status store(const edgepipe::Instruction& instruction);
  void gemm(const edgepipe::Instruction& instruction);
  void alu(const edgepipe::Instruction& instruction);

  /// Calls step(dst, src, wgt) for every step of a GEMM or ALU loop.
  template <typename Step>
  void loop(const edgepipe::Instruction& instruction, const Step& step);

  /// The elements of a memory type in the accelerator's own memory.
  std::byte* element(edgepipe::MemoryType type, std::size_t index);

  const edgepipe::Accelerator accelerator_;
  const edgepipe::InstructionCodec codec_;
  edgepipe::DeviceMemory& memory_;
  edgepipe::Turns turns_;  // the following belongs to the run that has its turn
  std::vector<std::byte> sram_[4];
};
