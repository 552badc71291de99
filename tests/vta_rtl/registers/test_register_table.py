"""The table of registers: offsets of the driver, no two registers in one place."""

from __future__ import annotations

import re
from pathlib import Path

from accelerators import SECOND_REVISION

from vta_rtl.registers.document import PAGE, page
from vta_rtl.registers.header import HEADER, header
from vta_rtl.registers.register_table import (
    BY_NAME,
    MAP_BYTES,
    REGISTERS,
    Access,
    Control,
    capability_word,
    configuration_hash,
    fnv1a,
    revision_word,
)
from vta_stages.accelerator import Accelerator

ROOT = Path(__file__).parents[3]
DRIVER = ROOT / "cpp_runtime" / "src" / "device" / "vta_registers.h"
# The driver's constants and the registers that they mean.
OF_DRIVER = {
    "FetchCount": "insn_count",
    "FetchAddress": "insn_addr",
    "InpBase": "inp_base",
    "WgtBase": "wgt_base",
    "UopBase": "uop_base",
    "AccBase": "acc_base",
    "OutBase": "out_base",
    "Done": "done",
}


def driver_constants() -> dict[str, int]:
    """Return the driver's constants, which are sums and shifts of numbers and earlier ones."""
    text = DRIVER.read_text(encoding="utf-8")
    values: dict[str, int] = {}
    for name, expression in re.findall(r"constexpr std::uint32_t k(\w+) = (.*?);", text):
        terms = re.sub(r"\bk(\w+)", lambda found: str(values[found[1]]), expression)
        parts = [part.strip().replace("U", "") for part in terms.split("+")]
        numbers = [[int(n, 0) for n in part.split("<<")] for part in parts]
        values[name] = sum(n[0] << (n[1] if len(n) > 1 else 0) for n in numbers)
    return values


def test_the_driver_finds_its_registers() -> None:
    driver = driver_constants()
    assert {name: BY_NAME[OF_DRIVER[name]].offset for name in OF_DRIVER} == {
        name: driver[name] for name in OF_DRIVER
    }
    for block in ("Fetch", "Load", "Compute", "Store"):
        offset = BY_NAME[f"{block.lower()}_control"].offset
        assert offset == driver[block] + driver["Control"]
    assert driver["Bytes"] == MAP_BYTES
    bits = {name: driver[name] for name in ("Start", "Idle", "AutoRestart")}
    assert bits == {
        "Start": Control.START,
        "Idle": Control.IDLE,
        "AutoRestart": Control.AUTO_RESTART,
    }


def test_registers_are_words_of_the_map_in_order() -> None:
    offsets = [register.offset for register in REGISTERS]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 and offset < MAP_BYTES for offset in offsets)
    assert len(BY_NAME) == len(REGISTERS)


def test_what_a_stored_register_resets_to_can_be_written() -> None:
    for register in REGISTERS:
        if register.access is Access.STORED:
            assert register.reset is not None
            assert register.reset & ~register.mask == 0


def test_the_revision_names_the_encoding() -> None:
    assert revision_word(Accelerator()) == 0x0100_0001
    assert revision_word(SECOND_REVISION) == 0x0100_0002


def test_fnv1a_gives_the_published_values() -> None:
    # Source: the vectors in Noll's reference of the 32-bit FNV-1a hash.
    assert [fnv1a(text) for text in (b"", b"a", b"foobar")] == [
        0x811C_9DC5,
        0xE40C_292C,
        0xBF9C_F968,
    ]


def test_capabilities_say_which_extensions_there_are() -> None:
    assert capability_word(Accelerator()) == 0x1F
    assert capability_word(Accelerator(extensions=("requantise",))) == 0x11F
    assert capability_word(Accelerator(extensions=("multiply",))) == 0x21F
    assert capability_word(Accelerator(extensions=("table",))) == 0x41F
    assert capability_word(Accelerator(extensions=("leaky",))) == 0x81F
    assert capability_word(Accelerator(extensions=("multiply", "requantise"))) == 0x31F


def test_the_hash_differs_between_configurations_and_never_changes() -> None:
    assert configuration_hash(Accelerator(), 16) == 0x35AC_0F86
    others = [
        configuration_hash(Accelerator(), 8),
        configuration_hash(SECOND_REVISION, 16),
        configuration_hash(Accelerator(wgt_buffer_bytes_log2=17), 16),
        configuration_hash(Accelerator(command_queue_depth=128), 16),
        configuration_hash(Accelerator(token_queue_depth=255), 16),
        configuration_hash(Accelerator(load_queue_depth=128), 16),
        configuration_hash(Accelerator(uop_index_bits=13), 16),
        configuration_hash(Accelerator(extensions=("multiply",)), 16),
        configuration_hash(Accelerator(extensions=("requantise",)), 16),
        configuration_hash(Accelerator(extensions=("multiply", "requantise")), 16),
    ]
    assert len({*others, configuration_hash(Accelerator(), 16)}) == 11
    # The driver computes the same (cpp_runtime/tests/device/own_registers_test.cc).
    extended = Accelerator(extensions=("multiply", "requantise", "table"))
    assert configuration_hash(extended, 16) == 0x8B23_7127
    # What does not change programs or the driver does not change the hash.
    assert configuration_hash(Accelerator(clock_hz=1), 16) == configuration_hash(Accelerator(), 16)


def test_the_page_is_current() -> None:
    found = PAGE.read_text(encoding="utf-8")
    assert found == page(), "write it again: python -m vta_rtl.registers.document"


def test_the_header_of_the_driver_is_current() -> None:
    found = HEADER.read_text(encoding="utf-8")
    assert found == header(), "write it again: python -m vta_rtl.registers.header"
