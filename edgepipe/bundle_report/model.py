"""A report as values: what the page, the text and the JSON show.

Times are in ms and by the timing model unless they are called measured. A *share of ideal* is the
time in which all multipliers would do the layer's products, without those with padding, over the
time that the layer takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgepipe.report.pipelining_limit import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Cycles that the modules of the accelerator waited during a layer.

    ``load`` and ``store``: computing waited for the module before or after it; ``fetch``: for its
    next instruction; ``port``: all modules waited while others moved data.
    """

    load: int
    store: int
    fetch: int
    port: int

    @property
    def all(self) -> int:
        """The sum of all waits, in cycles."""
        return self.load + self.store + self.fetch + self.port


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What an operator takes within the program of its VTA stage.

    ``cycles`` are those that it adds to the program. ``ideal_share`` is None for operators without
    products.
    """

    cycles: int
    ideal_share: float | None
    moved_bytes: int
    stalls: Stalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator where it runs, and what it would cost elsewhere.

    ``ms`` is its time in its stage, ``arm_ms`` on one core, ``vta_ms`` alone on the accelerator by
    the tiler's estimate: None if the accelerator refuses it, because of ``refusal``. ``can`` are
    the devices that can run it, of which ``device`` is the one that should. ``layer`` is
    None for operators on ARM. ``computed_with`` names the operator whose layer computes this one,
    too, "" if it has its own. ``inputs`` are operators and inputs of the network.
    """

    name: str
    kind: str
    can: tuple[str, ...]
    device: str
    stage: str
    reason: str
    inputs: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    products: int
    constant_bytes: int
    ms: float
    arm_ms: float
    vta_ms: float | None
    refusal: str
    layer: Layer | None
    computed_with: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage: its time for a frame, without the hop before it, and the crew that runs it.

    ``bytes`` is the size of its files, ``written_bytes`` that of the tensors that it hands over,
    and ``moved_bytes`` what it reads from memory and writes to it for a frame.
    ``reads`` are the numbers of the stages before it. ``launch_cycles`` include the maintenance of
    caches. They and ``cycles`` are 0 on ARM, and ``ideal_share`` is None there.
    """

    name: str
    device: str
    crew: str
    operators: int
    ms: float
    threads: int
    cores: tuple[int, ...]
    has_fallback: bool
    bytes: int
    written_bytes: int
    moved_bytes: int
    reads: tuple[int, ...]
    cycles: int
    launch_cycles: int
    ideal_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A part of the contiguous memory; ``kind`` is constants, scratch, instructions or tensor.

    Constants and scratch exist once; the others once in every slot. A region of kind tensor is a
    buffer: all of its ``tensors`` use it, one after the other, and ``stage`` writes the largest.
    """

    name: str
    kind: str
    stage: str
    in_every_slot: bool
    bytes: int
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The contiguous memory that CPU and accelerator share: its regions, and the board's amount."""

    regions: tuple[Region, ...]
    slots: int
    board_bytes: int

    @property
    def shared_bytes(self) -> int:
        """What exists once."""
        return sum(region.bytes for region in self.regions if not region.in_every_slot)

    @property
    def slot_bytes(self) -> int:
        """What one slot holds."""
        return sum(region.bytes for region in self.regions if region.in_every_slot)

    @property
    def used_bytes(self) -> int:
        """What the pipeline needs with all its slots."""
        return self.shared_bytes + self.slots * self.slot_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a stage for a frame in a lane of the timeline; the two are numbers."""

    lane: int
    stage: int
    frame: int
    begin_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Some frames of a pipeline.

    A lane is a thread. ``ms`` is the length of the shown time. In a trace, frames have their
    numbers in the run; otherwise the pipeline is full, and the first shown frame is number 1.
    """

    lanes: tuple[str, ...]
    runs: tuple[Run, ...]
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the model expects of the pipeline.

    ``interval_ms`` is the time between frames of a source that always has one ready, with what the
    shared memory adds to the stages' times,
    ``serial_ms`` that of one frame alone through all stages, hops included. ``bound_ms`` is what
    the busier device alone would allow: ``vta_ms`` of work, or ``arm_ms`` over all cores.
    """

    interval_ms: float
    serial_ms: float
    bound_ms: float
    vta_ms: float
    arm_ms: float
    arm_cores: int
    hop_ms: float
    timeline: Timeline

    @property
    def frames_per_second(self) -> float:
        """The rate of a pipeline that is always full."""
        return 1e3 / self.interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRates:
    """A prediction as a run on this machine is compared with it: stages and frames per second.

    ``stage_ms`` are the times of stages by name, each without its hop of ``hop_ms``. The other
    times are those of ``Prediction``. ``limit`` is what limits the gain, and why.
    """

    board: str
    stage_ms: Mapping[str, float]
    limit: Limit
    hop_ms: float
    interval_ms: float
    serial_ms: float

    @property
    def serial_fps(self) -> float:
        """Frames per second with the stages one after another."""
        return 1e3 / self.serial_ms

    @property
    def pipelined_fps(self) -> float:
        """Frames per second with the stages in parallel."""
        return 1e3 / self.interval_ms

    @property
    def gain(self) -> float:
        """Pipelined over serial frames per second."""
        return self.serial_ms / self.interval_ms

    @property
    def bound(self) -> float:
        """The gain that the stage times allow: their sum over the longest, each with its hop."""
        return self.serial_ms / (max(self.stage_ms.values()) + self.hop_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a bundle takes of its board: times are for a frame, in ms, with hops, by the model.

    ``arm_ms`` is on one core, ``bytes`` contiguous memory with all frames in flight, ``most_fps``
    the frames per second if nothing else runs.
    """

    board: str
    vta_ms: float
    arm_ms: float
    bytes: int
    most_fps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStage:
    """The times of a stage's runs, and its share of the time of the whole run, 0 to 1."""

    name: str
    mean_ms: float
    median_ms: float
    p99_ms: float
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a run's statistics or its trace say.

    ``device`` is that of the VTA stages, "" if it is not known. ``dropped`` and ``slots`` are None
    if only a trace is known. ``trace`` is the file with the times of single frames, of which the
    timeline shows some; if it is "", the timeline follows from the stages' mean times.
    """

    source: str
    device: str
    delivered: int
    dropped: int | None
    failed: int
    slots: int | None
    frames_per_second: float
    latency_median_ms: float
    latency_p99_ms: float
    stages: tuple[MeasuredStage, ...]
    trace: str
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a cut after ``operator`` would give: the end of the part that runs on ARM first.

    Times are estimates from the operators' costs alone, so they compare with each other and with
    ``WhatIf.built``, not with the prediction. ``arm_ms`` and ``vta_ms`` are a frame's work with its
    hops.
    """

    operator: str
    stages: int
    interval_ms: float
    serial_ms: float
    arm_ms: float
    vta_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Other cuts, in the order of the operators; ``built`` is the bundle, estimated alike."""

    built: Cut
    cuts: tuple[Cut, ...]

    @property
    def best(self) -> Cut | None:
        """The cut with the shortest interval, the first of equal ones; None without cuts."""
        return min(self.cuts, key=lambda cut: cut.interval_ms, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A bundle, how fast it should be, and how fast it was if it was measured.

    ``inputs`` and ``outputs`` are tensors of the network with their shapes in words.
    """

    name: str
    version: int
    board: str
    board_description: str
    accelerator: str
    clock_hz: int
    macs_per_cycle: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    operators: tuple[Operator, ...]
    stages: tuple[Stage, ...]
    memory: Memory
    prediction: Prediction
    what_if: WhatIf
    measurement: Measurement | None = None
