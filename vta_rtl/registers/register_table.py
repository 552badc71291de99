"""All registers: the one table that the hardware and ``vta_rtl/registers.md`` come from.

The first ones are at the offsets of the published bitstreams, which the driver uses
(``cpp_runtime/src/device/vta_registers.h``; source: the HLS interfaces of apache/tvm-vta's
``vta.cc``). The others are in the first page at 0x100, where those have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum

from vta_rtl.isa.names import MODULES
from vta_stages.accelerator import Accelerator, Extension

MAP_BYTES = 0x4000
"""Four pages: fetch, load, compute and store."""

MAGIC = 0x41545645
"""The bytes "EVTA", from the lowest."""

MAP_VERSION = 1


class Access(StrEnum):
    """What reading and writing a register does."""

    STORED = "read, write"
    STATUS = "read"
    EVENT = "read; write 1 to clear"
    CONTROL = "read, write, see text"
    COMMAND = "write"


class Control(IntFlag):
    """Bits of the control registers. Source: Vivado HLS's ``ap_ctrl_hs`` block interface."""

    START = 1 << 0
    DONE = 1 << 1
    IDLE = 1 << 2
    AUTO_RESTART = 1 << 7


class Capability(IntFlag):
    """What this device has that the published bitstreams do not have.

    The last ones are the extensions of the instruction set, which depend on the accelerator.
    """

    COUNTERS = 1 << 0
    WINDOW = 1 << 1
    ERRORS = 1 << 2
    INTERRUPT = 1 << 3
    ABORT = 1 << 4
    REQUANTISE = 1 << 8
    MULTIPLY = 1 << 9
    TABLE = 1 << 10
    LEAKY = 1 << 11
    CLEAR = 1 << 12
    WIDEN = 1 << 13
    PAD_VALUE = 1 << 14


class State(IntFlag):
    """Bits of ``state``."""

    IDLE = 1 << 0
    ABORTING = 1 << 1


class Error(IntFlag):
    """Bits of ``error``."""

    UNKNOWN_OPCODE = 1 << 0
    FETCH_ANSWER = 1 << 4
    LOAD_ANSWER = 1 << 5
    COMPUTE_ANSWER = 1 << 6
    STORE_ANSWER = 1 << 7
    FETCH_OUTSIDE = 1 << 8
    LOAD_OUTSIDE = 1 << 9
    COMPUTE_OUTSIDE = 1 << 10
    STORE_OUTSIDE = 1 << 11


class Interrupt(IntFlag):
    """Bits of ``interrupt_enable`` and ``interrupt_status``."""

    DONE = 1 << 0
    ERROR = 1 << 1
    ABORTED = 1 << 2


COMMAND_ABORT = 1 << 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A register of 32 bits at ``offset`` bytes.

    ``mask`` has a 1 for each bit that a write of a ``STORED`` register changes. ``reset`` is None
    if the accelerator decides it.
    """

    name: str
    offset: int
    access: Access
    text: str
    mask: int = 0xFFFF_FFFF
    reset: int | None = 0


def _bits(flags: type[IntFlag]) -> str:
    return ", ".join(f"{flag.bit_length() - 1} {flag.name.lower()}" for flag in flags)  # type: ignore[union-attr]


_RUNS = (
    f"Bits: {Control.START.bit_length() - 1} start, {Control.IDLE.bit_length() - 1} idle, "
    f"{Control.AUTO_RESTART.bit_length() - 1} auto-restart. Writing 1 to start lets the module run "
    "an instruction, and the following ones if auto-restart is 1; writing 0 to start does nothing"
)
_PAGE = 0xFFFF_F000
_FIRST_EXTENSION = 8


def _base(name: str, offset: int) -> Register:
    text = f"Byte address that `dram_base` of {name.upper()} transfers counts from, whole pages"
    return Register(name=f"{name}_base", offset=offset, access=Access.STORED, text=text, mask=_PAGE)


def _counters() -> list[Register]:
    registers = [
        Register(
            name="cycles",
            offset=0x130,
            access=Access.STATUS,
            text="Cycles of the last start until FINISH, or until now, modulo 2^32",
        )
    ]
    for number, module in enumerate(MODULES):
        waits = "for room in a queue" if module == "fetch" else "for tokens"
        for place, (kind, text) in enumerate(
            (
                ("busy", f"Cycles in which {module} was at work since the last start"),
                ("stall", f"Cycles in which {module} held an instruction that waited {waits}"),
            )
        ):
            registers.append(
                Register(
                    name=f"{module}_{kind}_cycles",
                    offset=0x134 + 8 * number + 4 * place,
                    access=Access.STATUS,
                    text=text,
                )
            )
    return registers


REGISTERS: tuple[Register, ...] = (
    Register(
        name="fetch_control",
        offset=0x0000,
        access=Access.CONTROL,
        reset=Control.IDLE,
        text=(
            f"Bits: {Control.START.bit_length() - 1} start, {Control.DONE.bit_length() - 1} done, "
            f"{Control.IDLE.bit_length() - 1} idle. Writing 1 to start begins a program as soon as "
            "`state` is idle; start is 1 until fetch has handed out all instructions, done from "
            "then until the register is read"
        ),
    ),
    Register(
        name="insn_count", offset=0x0010, access=Access.STORED, text="Instructions of the program"
    ),
    Register(
        name="insn_addr",
        offset=0x0018,
        access=Access.STORED,
        text="Byte address of the first instruction, a multiple of 16",
        mask=0xFFFF_FFF0,
    ),
    Register(
        name="magic",
        offset=0x100,
        access=Access.STATUS,
        reset=MAGIC,
        text='The bytes "EVTA", lowest first. Another value: a device without what follows',
    ),
    Register(
        name="revision",
        offset=0x104,
        access=Access.STATUS,
        reset=None,
        text=(
            f"Version of this map ({MAP_VERSION}) in bits 31:24, then the revision of the "
            "instruction encoding: major in 23:16, minor in 15:8, patch in 7:0"
        ),
    ),
    Register(
        name="configuration",
        offset=0x108,
        access=Access.STATUS,
        reset=None,
        text="Hash of the accelerator's configuration, `configuration_hash`",
    ),
    Register(
        name="capabilities",
        offset=0x10C,
        access=Access.STATUS,
        reset=None,
        text=(
            f"Bits: {_bits(Capability)}. Bits from {_FIRST_EXTENSION} up are extensions of the "
            "instruction set, 0 without them; the other bits are 1"
        ),
    ),
    Register(
        name="state",
        offset=0x110,
        access=Access.STATUS,
        reset=State.IDLE,
        text=f"Bits: {_bits(State)}. Idle: the last program has finished or was aborted",
    ),
    Register(
        name="command",
        offset=0x114,
        access=Access.COMMAND,
        text=(
            "Writing 1 to bit 0 aborts: no new instruction runs, queues and tokens are dropped, "
            "transfers on the buses come to their end, then the device is idle"
        ),
    ),
    Register(
        name="error",
        offset=0x118,
        access=Access.EVENT,
        text=(
            f"Bits: {_bits(Error)}. The first error aborts the program. Its bits stay until they "
            "are cleared, or the next start"
        ),
    ),
    Register(
        name="error_address",
        offset=0x11C,
        access=Access.STATUS,
        text="Byte address of the refused burst, if `error` has an outside bit",
    ),
    Register(
        name="interrupt_enable",
        offset=0x120,
        access=Access.STORED,
        text=f"Bits: {_bits(Interrupt)}",
        mask=sum(Interrupt),
    ),
    Register(
        name="interrupt_status",
        offset=0x124,
        access=Access.EVENT,
        text=f"Bits: {_bits(Interrupt)}. The interrupt is 1 while an enabled bit is 1",
    ),
    Register(
        name="window_first",
        offset=0x128,
        access=Access.STORED,
        text="Lowest byte address that the device may read or write; set while it is idle",
    ),
    Register(
        name="window_last",
        offset=0x12C,
        access=Access.STORED,
        reset=0xFFFF_FFFF,
        text="Highest such byte address",
    ),
    *_counters(),
    Register(name="load_control", offset=0x1000, access=Access.CONTROL, reset=4, text=_RUNS),
    _base("inp", 0x1010),
    _base("wgt", 0x1018),
    Register(name="compute_control", offset=0x2000, access=Access.CONTROL, reset=4, text=_RUNS),
    Register(
        name="done",
        offset=0x2018,
        access=Access.STATUS,
        text="1 from FINISH until the next start",
    ),
    _base("uop", 0x2020),
    _base("acc", 0x2028),
    Register(name="store_control", offset=0x3000, access=Access.CONTROL, reset=4, text=_RUNS),
    _base("out", 0x3010),
)

BY_NAME = {register.name: register for register in REGISTERS}


def revision_word(accelerator: Accelerator) -> int:
    """Return what the register ``revision`` holds."""
    major, minor, patch = (int(part) for part in accelerator.revision.split("."))
    return MAP_VERSION << 24 | major << 16 | minor << 8 | patch


def capability_word(accelerator: Accelerator) -> int:
    """Return what the register ``capabilities`` holds."""
    extensions = {Capability[extension.name]: accelerator.has(extension) for extension in Extension}
    return sum(flag for flag in Capability if extensions.get(flag, True))


def configuration_hash(accelerator: Accelerator, bus_bytes: int) -> int:
    """Return the 32-bit FNV-1a hash of what a program or a driver may depend on.

    The text is, separated by spaces: the configuration's name, the encoding revision, the depths
    of command and token queues, and the bytes of the bus; then ``load`` and the depth of the queue
    of loads, ``uop`` and the bits of a uop's index, and ``extensions`` and their names with commas,
    where the accelerator states them.
    """
    a = accelerator
    parts = [a.configuration, a.revision, a.command_queue_depth, a.token_queue_depth, bus_bytes]
    for name, stated in (
        ("load", a.load_queue_depth),
        ("uop", a.uop_index_bits),
        ("extensions", ",".join(a.extensions)),
    ):
        if stated:
            parts += [name, stated]
    return fnv1a(" ".join(str(part) for part in parts).encode())


def fnv1a(content: bytes) -> int:
    """Return the 32-bit FNV-1a hash. Source: draft-eastlake-fnv, section 2 and its constants."""
    value = 0x811C_9DC5
    for byte in content:
        value = (value ^ byte) * 0x0100_0193 & 0xFFFF_FFFF
    return value
