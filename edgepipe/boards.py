"""Boards: one TOML file each in ``board/``, loaded as frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe import resources, schema
from edgepipe.errors import AcceleratorError, BoardError, advise
from edgepipe.names import nearest
from vta_stages.accelerator import Accelerator
from vta_stages.timing.cost_model import CostModel

ARCHITECTURES = ("aarch64", "armhf", "x86_64")

# With two, the crews of YOLOX-nano's 75 stages reach 89 % of what the busier one allows, with three
# 95 %, with five 96 %, by the timing model of an Ultra96 (2026-11-25).
_FRAMES_PER_UNIT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StageThreads:
    """Where the threads of one kind of stage run on the board.

    ``cores``: if there are at least as many cores as ARM stages, the stages divide them
    (``partition.cores``); otherwise each stage may run on all of them. If ``cores`` is empty, the
    runtime gives each stage one of the process's cores. ARM stages that take at most
    ``light_percent`` of the longest one's time have no core of their own: they run on any of
    these. ``realtime_priority`` 1 to 99 selects
    SCHED_FIFO, which needs CAP_SYS_NICE; 0 is the normal scheduler.
    """

    cores: tuple[int, ...] = ()
    realtime_priority: int = 0
    light_percent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """The threads of the stages, by the stages' device."""

    arm: StageThreads = StageThreads()
    vta: StageThreads = StageThreads()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTiming:
    """The cost of operators and of stage handovers on one ARM core. Affects only placement.

    ``macs_per_cycle`` and ``depthwise_macs_per_cycle`` are multiplications per cycle of dense and
    of depthwise convolutions. ``table_cycles`` and ``product_cycles`` are cycles per element of
    tables and products; ``element_cycles`` those of every other call, and per multiplication in
    floating point; ``exponential_cycles`` those of sigmoid and softmax. ``byte_cycles`` are cycles
    per byte that a stage copies into another layout. ``fit_cycles`` are those per element of a
    camera's picture and of the network's input, to which it is fitted. ``handover_us`` is the time
    to wake a stage's thread, after the VTA through an interrupt. ``dram_bytes_per_s`` is what the
    memory delivers to the cores and the accelerator together; 0 if that is not known. The defaults
    are estimates for a Cortex-A53; docs/reference/timing-model.md gives their sources.
    """

    clock_hz: int = 1_200_000_000
    macs_per_cycle: float = 2.2
    depthwise_macs_per_cycle: float = 1.0
    table_cycles: float = 1.0
    product_cycles: float = 2.0
    element_cycles: float = 2.0
    exponential_cycles: float = 40.0
    byte_cycles: float = 3.5
    fit_cycles: float = 5.3
    handover_us: float = 50.0
    dram_bytes_per_s: int = 0

    def __post_init__(self) -> None:
        rates = ("clock_hz", "macs_per_cycle", "depthwise_macs_per_cycle")
        costs = ("table_cycles", "product_cycles", "element_cycles", "exponential_cycles")
        for name in (*rates, *costs):
            if getattr(self, name) <= 0:
                raise BoardError(
                    f"arm_timing: {name} is {getattr(self, name)}, expected > 0",
                    hint="omit the key to use the default",
                )
        for name in ("byte_cycles", "fit_cycles", "handover_us", "dram_bytes_per_s"):
            if getattr(self, name) < 0:
                raise BoardError(
                    f"arm_timing: {name} is {getattr(self, name)}, expected >= 0",
                    hint="omit the key to use the default",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board: its CPU cores, and the accelerator that its bitstream contains.

    ``cores`` is 0 if it is only known at run time. ``compatible`` has strings by which Linux's
    device tree names this board and no other. ``bitstream`` is a path in the manifest of known
    bitstreams, empty if none was published. ``timing`` contains values measured on the board, or
    estimates. It influences how programs are tiled, never what they compute. Together with
    ``arm_timing`` it decides which device runs depthwise convolutions, if the slots of the pipeline
    fit into ``dma_bytes`` of contiguous memory. ``threads`` is copied into bundles for the board
    and applies when they run on its architecture.
    """

    name: str
    description: str
    part: str
    architecture: str
    cpu: str
    cores: int
    bitstream: str
    accelerator: Accelerator
    timing: CostModel = field(default_factory=CostModel)
    arm_timing: ArmTiming = ArmTiming()
    dma_bytes: int = 128 << 20
    compatible: tuple[str, ...] = ()
    threads: Threads = Threads()

    @property
    def arm_cores(self) -> int:
        """The number of cores that the ARM stages share, at least one."""
        return max(len(self.threads.arm.cores) or self.cores, 1)

    @property
    def vta_share(self) -> float:
        """The share of the accelerator's time that a network gets, more than 0 and at most 1."""
        return 1.0

    @property
    def arm_share(self) -> float:
        """The share of the cores' time that a network gets, more than 0 and at most 1."""
        return 1.0

    def vta_ms(self, cycles: float) -> float:
        """Return the time that ``cycles`` of the accelerator take, in ms."""
        return 1e3 * cycles / self.accelerator.clock_hz / self.vta_share

    def arm_ms(self, cycles: float) -> float:
        """Return the time that ``cycles`` of one core take, in ms."""
        return 1e3 * cycles / self.arm_timing.clock_hz / self.arm_share

    def vta_stage_ms(self, cycles: float, border_bytes: int = 0) -> float:
        """Return the time of a VTA stage in ms: its launch, then ``cycles`` of work.

        ``border_bytes`` are those of the tensors that it reads from elsewhere and passes on.
        """
        return self.vta_ms(self.timing.host_cycles(border_bytes) + cycles)

    def slots(self, stages: int) -> int:
        """Return how many frames of a pipeline should be in flight at once.

        One per stage and two for the caller, but at most three per unit that works in parallel (the
        accelerator and each core), which is enough to keep all units busy
        (docs/reference/timing-model.md).
        """
        everyone = stages + 2
        units = self.arm_cores + 1
        return min(everyone, _FRAMES_PER_UNIT * units) if self.cores else everyone

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise BoardError(
                f"board {self.name}: architecture {self.architecture!r} is unknown",
                hint=f"known architectures: {', '.join(ARCHITECTURES)}",
            )
        for key, value in (("cores", self.cores), ("dma_bytes", self.dma_bytes)):
            if value < 0:
                raise BoardError(f"board {self.name}: {key} is {value}, expected >= 0")
        for device, threads in (("arm", self.threads.arm), ("vta", self.threads.vta)):
            where = f"board {self.name}: threads.{device}"
            missing = [c for c in threads.cores if c < 0 or (self.cores and c >= self.cores)]
            if missing:
                raise BoardError(
                    f"{where}: core {missing[0]} does not exist",
                    hint=f"the board's cores: {', '.join(map(str, range(self.cores)))}",
                )
            for core in threads.cores:
                if threads.cores.count(core) > 1:
                    raise BoardError(
                        f"{where}: core {core} is given twice", hint="name each core once"
                    )
            if not 0 <= threads.light_percent <= 100:
                raise BoardError(
                    f"{where}: light_percent is {threads.light_percent}, expected 0 to 100"
                )
            if not 0 <= threads.realtime_priority <= 99:
                raise BoardError(
                    f"{where}: realtime_priority is {threads.realtime_priority}, expected 0 to 99"
                )


def architectures(board: Board) -> tuple[str, ...]:
    """Return the architectures of ARM stages: the board's, and x86_64 for development machines."""
    return tuple(sorted({board.architecture, "x86_64"}))


def names() -> tuple[str, ...]:
    """Return the names of the boards that edgepipe knows, sorted."""
    return tuple(sorted(path.stem for path in resources.folder("board").glob("*.toml")))


def of_device_tree(compatible: Sequence[str]) -> str:
    """Return the name of the known board that a device tree's ``compatible`` list names, or ""."""
    known = {string: name for name in names() for string in load(name).compatible}
    return next((known[string] for string in compatible if string in known), "")


def load(name_or_path: str) -> Board:
    """Load a board by name, or from the user's own TOML file.

    Raises ``BoardError`` for an unknown name, an unknown key or an impossible value.
    """
    return _load_file(path_of(name_or_path))


def path_of(name_or_path: str) -> Path:
    """Return the file of a known board, or the given path of a TOML file.

    Raises ``BoardError`` for an unknown name.
    """
    if name_or_path.endswith(".toml"):
        return Path(name_or_path)
    if name_or_path not in names():
        near = nearest(name_or_path, names())
        raise BoardError(
            f"board {name_or_path!r} is unknown",
            hint=(f"did you mean {near}? " if near else "")
            + f"known boards: {', '.join(names())}; or give the path of a board's .toml file",
        )
    return resources.folder("board") / f"{name_or_path}.toml"


def _load_file(path: Path) -> Board:
    with advise("correct the board's file; the files in board/ show every key"):
        table = schema.read_toml(path, BoardError)
        _check_replaced(table, path.name)
        try:
            return schema.from_table(Board, table, path.name, BoardError)
        except AcceleratorError as cause:
            raise BoardError(f"{path.name}: {cause}", hint=cause.hint) from cause


def _check_replaced(table: Mapping[str, object], where: str) -> None:
    """Raise ``BoardError`` for a cost that board files had once, and say what has replaced it."""
    timing = table.get("timing")
    if isinstance(timing, dict) and "load_rows" in timing:
        raise BoardError(
            f"{where}: timing: load_rows is {timing['load_rows']}, expected reads_in_flight, which "
            "has replaced it",
            hint="omit the key if load_rows was 1; otherwise give the read requests that the port "
            "takes before the first is answered as reads_in_flight, and their longest burst as "
            "burst_bytes",
        )
