// The registers that edgepipe's own hardware has beside the stock ones (vta_registers.h).
//
// Written by `python -m vta_rtl.registers.header` from vta_rtl/registers/register_table.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace edgepipe::vta::own {

// Byte offsets from the first block.
inline constexpr std::uint32_t kMagic = 0x100;
inline constexpr std::uint32_t kRevision = 0x104;
inline constexpr std::uint32_t kConfiguration = 0x108;
inline constexpr std::uint32_t kCapabilities = 0x10c;
inline constexpr std::uint32_t kState = 0x110;
inline constexpr std::uint32_t kCommand = 0x114;
inline constexpr std::uint32_t kError = 0x118;
inline constexpr std::uint32_t kErrorAddress = 0x11c;
inline constexpr std::uint32_t kInterruptEnable = 0x120;
inline constexpr std::uint32_t kInterruptStatus = 0x124;
inline constexpr std::uint32_t kWindowFirst = 0x128;
inline constexpr std::uint32_t kWindowLast = 0x12c;
inline constexpr std::uint32_t kCycles = 0x130;

// Values and bits.
inline constexpr std::uint32_t kMagicValue = 0x41545645;
inline constexpr std::uint32_t kMapVersion = 1;
inline constexpr std::uint32_t kCommandAbort = 1U << 0;
inline constexpr std::uint32_t kCapabilityCounters = 1U << 0;
inline constexpr std::uint32_t kCapabilityWindow = 1U << 1;
inline constexpr std::uint32_t kCapabilityErrors = 1U << 2;
inline constexpr std::uint32_t kCapabilityInterrupt = 1U << 3;
inline constexpr std::uint32_t kCapabilityAbort = 1U << 4;
inline constexpr std::uint32_t kCapabilityRequantise = 1U << 8;
inline constexpr std::uint32_t kCapabilityMultiply = 1U << 9;
inline constexpr std::uint32_t kCapabilityTable = 1U << 10;
inline constexpr std::uint32_t kCapabilityLeaky = 1U << 11;
inline constexpr std::uint32_t kCapabilityClear = 1U << 12;
inline constexpr std::uint32_t kCapabilityWiden = 1U << 13;
inline constexpr std::uint32_t kCapabilityPadValue = 1U << 14;
inline constexpr std::uint32_t kStateIdle = 1U << 0;
inline constexpr std::uint32_t kStateAborting = 1U << 1;
inline constexpr std::uint32_t kInterruptDone = 1U << 0;
inline constexpr std::uint32_t kInterruptError = 1U << 1;
inline constexpr std::uint32_t kInterruptAborted = 1U << 2;

struct NamedBit {
  std::uint32_t mask;
  std::string_view name;
};
inline constexpr std::array<NamedBit, 12> kCapabilityNames{{
    {1U << 0, "counters"},
    {1U << 1, "window"},
    {1U << 2, "errors"},
    {1U << 3, "interrupt"},
    {1U << 4, "abort"},
    {1U << 8, "requantise"},
    {1U << 9, "multiply"},
    {1U << 10, "table"},
    {1U << 11, "leaky"},
    {1U << 12, "clear"},
    {1U << 13, "widen"},
    {1U << 14, "pad_value"},
}};
inline constexpr std::array<NamedBit, 9> kErrors{{
    {1U << 0, "unknown_opcode"},
    {1U << 4, "fetch_answer"},
    {1U << 5, "load_answer"},
    {1U << 6, "compute_answer"},
    {1U << 7, "store_answer"},
    {1U << 8, "fetch_outside"},
    {1U << 9, "load_outside"},
    {1U << 10, "compute_outside"},
    {1U << 11, "store_outside"},
}};

struct Counters {
  std::string_view module;
  std::uint32_t busy;
  std::uint32_t stall;
};
inline constexpr std::array<Counters, 4> kCounters{{
    {"fetch", 0x134, 0x138},
    {"load", 0x13c, 0x140},
    {"compute", 0x144, 0x148},
    {"store", 0x14c, 0x150},
}};

// Every register, stock ones included, and whether a driver writes it.
struct Register {
  std::uint32_t offset;
  bool written;
};
// clang-format off
inline constexpr std::array<Register, 33> kRegisters{{
    {0x0, true},
    {0x10, true},
    {0x18, true},
    {0x100, false},
    {0x104, false},
    {0x108, false},
    {0x10c, false},
    {0x110, false},
    {0x114, true},
    {0x118, true},
    {0x11c, false},
    {0x120, true},
    {0x124, true},
    {0x128, true},
    {0x12c, true},
    {0x130, false},
    {0x134, false},
    {0x138, false},
    {0x13c, false},
    {0x140, false},
    {0x144, false},
    {0x148, false},
    {0x14c, false},
    {0x150, false},
    {0x1000, true},
    {0x1010, true},
    {0x1018, true},
    {0x2000, true},
    {0x2018, false},
    {0x2020, true},
    {0x2028, true},
    {0x3000, true},
    {0x3010, true},
}};
// clang-format on

}  // namespace edgepipe::vta::own
