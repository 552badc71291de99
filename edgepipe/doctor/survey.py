"""A survey of a board, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from edgepipe.errors import DeployError

_Value = TypeVar("_Value")
_NUMBER = re.compile(r"[0-9]{1,18}")  # int() refuses thousands of digits
_DF = re.compile(rf"\s\d+\s+\d+\s+({_NUMBER.pattern})\s+\d+%\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class UioDevice:
    """A UIO device: ``rights`` is "rw" if this user may use it; ``bytes`` is its register size."""

    device: str
    rights: str
    bytes: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaBuffer:
    """A u-dma-buf; ``sync_rights`` are the rights on its cache maintenance files."""

    device: str
    rights: str
    bytes: int
    sync_rights: str
    coherent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDevice:
    """Another source of contiguous memory, below /dev: XRT's zocl or a dma-heap."""

    device: str
    rights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """A Video4Linux device."""

    device: str
    rights: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuClock:
    """A core's current and maximum clock, and its governor."""

    core: str
    now_khz: int
    most_khz: int
    governor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A sensor's value: millidegrees Celsius, microwatts or Hz."""

    sensor: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything that was found; an empty text means that the board does not report it."""

    machine: str
    kernel: str
    user: str = ""
    libc: str = ""
    system: str = ""
    model: str = ""
    modules: frozenset[str] = frozenset()
    cma_bytes: int = 0
    cma_free_bytes: int = 0
    uio: tuple[UioDevice, ...] = ()
    buffers: tuple[DmaBuffer, ...] = ()
    zocl: tuple[MemoryDevice, ...] = ()
    heaps: tuple[MemoryDevice, ...] = ()
    capabilities: int = 0
    cameras: tuple[Camera, ...] = ()
    managers: tuple[str, ...] = ()
    bitstream: str = ""
    clocks: tuple[CpuClock, ...] = ()
    logic_clocks: tuple[Reading, ...] = ()
    temperatures: tuple[Reading, ...] = ()
    powers: tuple[Reading, ...] = ()
    release: int | None = None
    release_record: str = ""
    free_disk_bytes: int = 0


@dataclass(slots=True)
class _Lines:
    """The survey's lines by their key, in order."""

    by_key: dict[str, list[str]] = field(default_factory=dict)

    def one(self, key: str) -> str:
        return self.by_key.get(key, [""])[0]

    def each(self, key: str, words: int, make: Callable[..., _Value]) -> tuple[_Value, ...]:
        """Create a value from every line's first ``words`` words and the rest of the line."""
        made = []
        for line in self.by_key.get(key, []):
            parts = line.split(" ", words)
            parts += [""] * (words + 1 - len(parts))
            made.append(make(*parts))
        return tuple(made)


def parse(text: str, host: str) -> Survey:
    """Parse the output of the board's ``survey``; ignore unknown keys.

    Raises DeployError for an incomplete answer.
    """
    lines = _Lines()
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        lines.by_key.setdefault(key, []).append(rest.strip())
    if not lines.one("machine") or not lines.one("kernel"):
        raise DeployError(
            f"{host}: unexpected answer to the survey: {text[:200]!r}",
            hint="make sure that the login shell on the board prints nothing",
        )
    number, _, record = lines.one("release").partition(" ")
    free = _DF.search(lines.one("df") + " ")
    return Survey(
        machine=lines.one("machine"),
        kernel=lines.one("kernel"),
        user=lines.one("user"),
        libc=lines.one("libc"),
        system=lines.one("os"),
        model=lines.one("model"),
        modules=frozenset(lines.by_key.get("module", [])),
        cma_bytes=_number(lines.one("CmaTotal")) * 1024,
        cma_free_bytes=_number(lines.one("CmaFree")) * 1024,
        uio=lines.each("uio", 3, _uio),
        buffers=lines.each("buffer", 4, _buffer),
        zocl=lines.each("zocl", 1, _memory_device),
        heaps=lines.each("heap", 1, _memory_device),
        capabilities=_number("0x" + lines.one("capabilities")),
        cameras=lines.each("camera", 2, _camera),
        managers=tuple(lines.by_key.get("manager", [])),
        bitstream=lines.one("bitstream"),
        clocks=lines.each("clock", 3, _clock),
        logic_clocks=lines.each("logicclock", 1, _reading),
        temperatures=lines.each("temperature", 1, _reading),
        powers=lines.each("power", 1, _reading),
        release=int(number) if _NUMBER.fullmatch(number) else None,
        release_record=record,
        free_disk_bytes=int(free[1]) * 1024 if free else 0,
    )


def _number(text: str) -> int:
    """Return a number as the kernel prints it, decimal or with 0x; 0 if it is malformed."""
    try:
        return int(text, 0)
    except ValueError:
        return 0


def _uio(device: str, rights: str, register_bytes: str, name: str) -> UioDevice:
    return UioDevice(device=device, rights=rights, bytes=_number(register_bytes), name=name)


def _buffer(device: str, rights: str, buffer_bytes: str, sync: str, coherent: str) -> DmaBuffer:
    return DmaBuffer(
        device=device,
        rights=rights,
        bytes=_number(buffer_bytes),
        sync_rights=sync,
        coherent=coherent == "1",
    )


def _memory_device(device: str, rights: str) -> MemoryDevice:
    return MemoryDevice(device=device, rights=rights)


def _camera(device: str, rights: str, name: str) -> Camera:
    return Camera(device=device, rights=rights, name=name)


def _clock(core: str, now_khz: str, most_khz: str, governor: str) -> CpuClock:
    return CpuClock(
        core=core, now_khz=_number(now_khz), most_khz=_number(most_khz), governor=governor
    )


def _reading(value: str, sensor: str) -> Reading:
    return Reading(sensor=sensor, value=_number(value))
