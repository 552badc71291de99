// The accelerator's registers: four HLS blocks with AXI-lite slaves, one page each.
//
// Source: the hardware's HLS interfaces (apache/tvm-vta, hardware/xilinx/src/vta.cc); Vivado HLS
// assigns the offsets. Shared by the driver, the FPGA model and their tests.
#pragma once

#include <cstdint>

namespace edgepipe::vta {

// Byte offsets from the first block.
inline constexpr std::uint32_t kFetch = 0x0000;
inline constexpr std::uint32_t kLoad = 0x1000;
inline constexpr std::uint32_t kCompute = 0x2000;
inline constexpr std::uint32_t kStore = 0x3000;
inline constexpr std::uint32_t kBytes = 0x4000;

// Every block's control register, and its bits.
inline constexpr std::uint32_t kControl = 0x00;
inline constexpr std::uint32_t kStart = 1U << 0;
inline constexpr std::uint32_t kIdle = 1U << 2;
inline constexpr std::uint32_t kAutoRestart = 1U << 7;

inline constexpr std::uint32_t kFetchCount = kFetch + 0x10;    // instructions
inline constexpr std::uint32_t kFetchAddress = kFetch + 0x18;  // of the first one, in bytes

// Bases in bytes that dram_base fields are relative to. The driver keeps them at 0.
inline constexpr std::uint32_t kInpBase = kLoad + 0x10;
inline constexpr std::uint32_t kWgtBase = kLoad + 0x18;
inline constexpr std::uint32_t kUopBase = kCompute + 0x20;
inline constexpr std::uint32_t kAccBase = kCompute + 0x28;
inline constexpr std::uint32_t kOutBase = kStore + 0x10;

// 1 from FINISH until compute has popped the next instruction *and its tokens*: for a while after a
// start it still refers to the previous run.
inline constexpr std::uint32_t kDone = kCompute + 0x18;

// An emulated accelerator has one more page after its blocks, which stands for the PL's reset line.
// The driver adds one to the request; the reset is done when the acknowledge word equals it.
inline constexpr std::uint32_t kResetRequest = 0x4000;
inline constexpr std::uint32_t kResetAcknowledge = 0x4004;
inline constexpr std::uint32_t kBytesWithReset = 0x5000;

}  // namespace edgepipe::vta
