"""The table of registers as a page: ``python -m vta_rtl.registers.document`` writes it."""

from __future__ import annotations

from pathlib import Path

from vta_rtl.registers.register_table import REGISTERS, Register

PAGE = Path(__file__).parents[1] / "registers.md"

_HEAD = """# Registers

Written by `python -m vta_rtl.registers.document` from `vta_rtl/registers/register_table.py`.

Offsets are in bytes, from the first of four pages: fetch, load, compute, store. The registers below
0x100 in a page are where the published bitstreams have them; the others are this device's own. An
offset that is not listed reads 0, and writing it has no effect. Registers have 32 bits; a write
changes the bytes that its strobes name.

| offset | name | access | reset | meaning |
|---|---|---|---|---|
"""


def _row(register: Register) -> str:
    reset = "accelerator" if register.reset is None else f"0x{register.reset:x}"
    offset = f"0x{register.offset:04x}"
    return f"| {offset} | `{register.name}` | {register.access} | {reset} | {register.text} |\n"


def page() -> str:
    """Return the page, Markdown."""
    return _HEAD + "".join(_row(register) for register in REGISTERS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
