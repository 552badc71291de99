"""Where depthwise convolutions run: the choice that gives more frames per second.

A depthwise convolution uses one in 16 of the VTA's multipliers. On ARM it may take longer, but the
VTA works on the next frame meanwhile. It also adds two stages, and the tensors between them.

    on vta   arm | vta                      interval: the VTA's time
    on arm   arm | vta | arm | vta | ...    interval: the longer of the VTA's and the cores' time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.boards import Board
from edgepipe.bundle.buffers import StageTensors, plan_buffers
from edgepipe.partition.arm_cost import is_depthwise, operators_ms
from edgepipe.partition.borders import border_bytes
from edgepipe.partition.cores import divide, longest_ms
from edgepipe.partition.placement import Segment
from edgepipe.partition.rules.reasons import reasons

MEBIBYTE = 1 << 20

Arrange = Callable[[Mapping[str, str]], tuple[Segment, ...]]
"""Makes segments, given the operators to run on ARM with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A network in segments, with its modelled times.

    ``vta_ms`` and ``arm_ms`` are the time of a frame's work on each, including handovers;
    ``slots_bytes`` the tensors between stages in the board's usual number of slots.
    """

    segments: tuple[Segment, ...]
    vta_ms: float
    arm_ms: float
    interval_ms: float
    slots_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen arrangement, and lines that compare it with others."""

    segments: tuple[Segment, ...]
    text: str


def choose(
    arrange: Arrange,
    cycles: Mapping[str, float],
    tensor_bytes: Mapping[str, int],
    board: Board,
    wish: str = "auto",
) -> Choice:
    """Arrange a network with its depthwise convolutions on the VTA or on ARM.

    ``arrange`` makes segments, given the operators to run on ARM with the reasons; ``cycles`` are
    those on the VTA by operator, filled by the first call of ``arrange``. ``wish`` is one of
    ``choices.DEPTHWISE``. The text is empty if there is nothing to choose.
    """
    on_vta = arrange({})
    candidates = [
        placed.operator.name
        for part in on_vta
        for placed in part.operators
        if part.device == "vta" and is_depthwise(placed.operator.layer)
    ]
    if not candidates:
        return Choice(segments=on_vta, text="")
    reason = reasons().depthwise_requested
    if wish == "auto":
        reason = reasons().depthwise_faster
    there = estimate(on_vta, cycles, tensor_bytes, board)
    here = estimate(arrange(dict.fromkeys(candidates, reason)), cycles, tensor_bytes, board)
    fits = here.slots_bytes <= board.dma_bytes
    faster = here.interval_ms < there.interval_ms
    device = ("arm" if faster and fits else "vta") if wish == "auto" else wish
    memory = f"{here.slots_bytes / MEBIBYTE:.0f} MiB of slots"
    if not fits:
        memory += f", more than the board's {board.dma_bytes / MEBIBYTE:.0f}"
    counted = f"{len(candidates)} depthwise convolution{'s' * (len(candidates) > 1)}"
    text = (
        f"{counted} on {device}; by the model a frame every "
        f"{there.interval_ms:.1f} ms on vta, {here.interval_ms:.1f} ms on arm "
        f"({len(here.segments)} stages, {memory})"
    )
    return Choice(segments=(here if device == "arm" else there).segments, text=text)


def estimate(
    segments: tuple[Segment, ...],
    cycles: Mapping[str, float],
    tensor_bytes: Mapping[str, int],
    board: Board,
) -> Arrangement:
    """Return the times of a pipeline of these segments, with a frame in every stage."""
    handover_ms = board.arm_timing.handover_us / 1e3
    stages: dict[str, list[float]] = {"arm": [], "vta": []}
    for part, borders in zip(segments, border_bytes(segments, tensor_bytes), strict=True):
        stages[part.device].append(
            board.vta_stage_ms(sum(cycles[p.operator.name] for p in part.operators), borders)
            if part.device == "vta"
            else stage_arm_ms(part, board)
        )
    vta, arm = (sum(times) + len(times) * handover_ms for times in (stages["vta"], stages["arm"]))
    light = board.threads.arm.light_percent
    shared = divide(stages["arm"], board.threads.arm.cores, light)
    longest = longest_ms(stages["arm"], shared, light)
    longest += handover_ms if stages["arm"] else 0.0
    return Arrangement(
        segments=segments,
        vta_ms=vta,
        arm_ms=arm,
        interval_ms=max(vta, arm / board.arm_cores, longest),
        slots_bytes=board.slots(len(segments)) * slot_bytes(segments, tensor_bytes),
    )


def stage_arm_ms(part: Segment, board: Board) -> float:
    """Return the time of an ARM stage on one core, in ms."""
    return operators_ms((placed.operator for placed in part.operators), board)


def slot_bytes(segments: Sequence[Segment], tensor_bytes: Mapping[str, int]) -> int:
    """Return the bytes of the buffers for the tensors that one segment passes to another."""
    made = {p.operator.output: n for n, part in enumerate(segments) for p in part.operators}
    reads = [
        dict.fromkeys(
            name
            for placed in part.operators
            for name in placed.operator.inputs
            if made.get(name, -1) != number
        )
        for number, part in enumerate(segments)
    ]
    passed = {name: tensor_bytes[name] for names in reads for name in names}
    stages = [
        StageTensors(
            device=part.device,
            reads=tuple(reads[number]),
            writes=tuple(name for name in passed if made.get(name) == number),
        )
        for number, part in enumerate(segments)
    ]
    buffers = plan_buffers(stages, passed, kept=[name for name in passed if name not in made])
    return sum(passed[members[0]] for members in buffers)
