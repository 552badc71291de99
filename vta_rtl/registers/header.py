"""The table of registers for C++: ``python -m vta_rtl.registers.header`` writes the header."""

from __future__ import annotations

from enum import IntFlag
from pathlib import Path

from vta_rtl.isa.names import MODULES
from vta_rtl.registers.register_table import (
    BY_NAME,
    COMMAND_ABORT,
    MAGIC,
    MAP_VERSION,
    REGISTERS,
    Access,
    Capability,
    Error,
    Interrupt,
    State,
)

HEADER = Path(__file__).parents[2] / "cpp_runtime/src/device/own_register_map.h"

_HEAD = """\
// The registers that edgepipe's own hardware has beside the stock ones (vta_registers.h).
//
// Written by `python -m vta_rtl.registers.header` from vta_rtl/registers/register_table.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace edgepipe::vta::own {

// Byte offsets from the first block.
"""
_FIRST_OWN = 0x100
_FLAGS = (Capability, State, Interrupt)


def _words(name: str) -> str:
    """Return ``WINDOW_FIRST`` as ``WindowFirst``."""
    return name.title().replace("_", "")


def _camel(name: str) -> str:
    return f"k{_words(name)}"


def _constant(name: str, value: str) -> str:
    return f"inline constexpr std::uint32_t {name} = {value};\n"


def _bit(value: int) -> str:
    return f"1U << {value.bit_length() - 1}"


def _flags(flags: type[IntFlag]) -> str:
    return "".join(
        _constant(f"k{flags.__name__}{_words(str(flag.name))}", _bit(flag)) for flag in flags
    )


def _offset(name: str) -> str:
    return f"{BY_NAME[name].offset:#x}"


def _array(kind: str, name: str, rows: list[str]) -> str:
    lines = "".join(f"    {{{row}}},\n" for row in rows)
    return f"inline constexpr std::array<{kind}, {len(rows)}> {name}{{{{\n{lines}}}}};\n"


def header() -> str:
    """Return the header, C++."""
    own = [r for r in REGISTERS if _FIRST_OWN <= r.offset < 0x1000]
    named = [r for r in own if not r.name.endswith(("_busy_cycles", "_stall_cycles"))]
    parts = [_HEAD]
    parts += [_constant(_camel(r.name), f"{r.offset:#x}") for r in named]
    parts += ["\n// Values and bits.\n"]
    parts += [_constant("kMagicValue", f"{MAGIC:#x}"), _constant("kMapVersion", str(MAP_VERSION))]
    parts += [_constant("kCommandAbort", _bit(COMMAND_ABORT)), *map(_flags, _FLAGS)]
    parts += ["\nstruct NamedBit {\n  std::uint32_t mask;\n  std::string_view name;\n};\n"]
    for name, flags in (("kCapabilityNames", Capability), ("kErrors", Error)):
        rows = [f'{_bit(flag)}, "{str(flag.name).lower()}"' for flag in flags]
        parts += [_array("NamedBit", name, rows)]
    parts += ["\nstruct Counters {\n  std::string_view module;\n"]
    parts += ["  std::uint32_t busy;\n  std::uint32_t stall;\n};\n"]
    rows = [
        f'"{m}", {_offset(f"{m}_busy_cycles")}, {_offset(f"{m}_stall_cycles")}' for m in MODULES
    ]
    parts += [_array("Counters", "kCounters", rows)]
    parts += ["\n// Every register, stock ones included, and whether a driver writes it.\n"]
    parts += ["struct Register {\n  std::uint32_t offset;\n  bool written;\n};\n"]
    rows = [f"{r.offset:#x}, {'false' if r.access is Access.STATUS else 'true'}" for r in REGISTERS]
    parts += ["// clang-format off\n", _array("Register", "kRegisters", rows)]
    parts += ["// clang-format on\n", "\n}  // namespace edgepipe::vta::own\n"]
    return "".join(parts)


if __name__ == "__main__":
    HEADER.write_text(header(), encoding="utf-8")
