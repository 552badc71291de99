"""Stages of the VTA that are shorter than the hops around them, moved to ARM.

A gate of squeeze-and-excitation is two convolutions on one pixel. Each would be a stage of a few
microseconds between two hops; on ARM the whole gate and its neighbours are one stage.

    before   arm | vta  conv | arm  table | vta  conv | arm  sigmoid, product | vta
    after    arm   conv        table        conv        sigmoid, product      | vta
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgepipe.boards import Board
from edgepipe.partition.arm_cost import operators_ms
from edgepipe.partition.borders import border_bytes
from edgepipe.partition.depthwise import Arrange, estimate
from edgepipe.partition.placement import Segment
from edgepipe.partition.rules.reasons import reasons

# The ARM stages of a network whose body is one program: the first convolution, and decoding.
_PLAIN = 2
# How much longer a frame may take if more frames a second are the reason.
_MOST_LATENCY = 1.15


def without_short_stages(
    arrange: Arrange, cycles: Mapping[str, float], tensor_bytes: Mapping[str, int], board: Board
) -> Arrange:
    """Return ``arrange`` with short stages of the VTA moved to ARM.

    ``arrange`` makes segments, given the operators to run on ARM with the reasons; ``cycles`` are
    those on the VTA by operator, filled by ``arrange``. A stage moves if a frame then takes less
    time, or if the VTA is the busier device and a frame takes at most 15 % longer. Nothing moves if
    that would lengthen the interval between frames, if each ARM stage can have its own core, or if
    the cores are only known at run time. At least one stage stays on the VTA.
    """

    def better(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        best = arrange(on_arm)
        arm_stages = sum(part.device == "arm" for part in best)
        if not board.cores or arm_stages <= max(board.arm_cores, _PLAIN):
            return best
        moved = dict(on_arm)
        hop_ms = board.arm_timing.handover_us / 1e3
        for choose in (_shorter, _faster):
            stages = _stages(best, cycles, tensor_bytes, board)
            old = estimate(best, cycles, tensor_bytes, board)
            wish = moved | _no_longer(choose(stages, board), stages, old.interval_ms - hop_ms)
            if len(wish) == len(moved):
                continue
            after = arrange(wish)
            new = estimate(after, cycles, tensor_bytes, board)
            stays = any(part.device == "vta" for part in after)
            if stays and len(after) < len(best) and new.interval_ms <= old.interval_ms:
                best, moved = after, wish
        return best

    return better


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A stage with its times on its device (``ms``) and on one core, with no hop."""

    device: str
    operators: tuple[str, ...]
    ms: float
    arm_ms: float


def _stages(
    segments: tuple[Segment, ...],
    cycles: Mapping[str, float],
    tensor_bytes: Mapping[str, int],
    board: Board,
) -> list[_Stage]:
    found = []
    for part, borders in zip(segments, border_bytes(segments, tensor_bytes), strict=True):
        operators = [placed.operator for placed in part.operators]
        ms = arm_ms = operators_ms(operators, board)
        if part.device == "vta":
            ms = board.vta_stage_ms(sum(cycles[o.name] for o in operators), borders)
        names = tuple(operator.name for operator in operators)
        found.append(_Stage(device=part.device, operators=names, ms=ms, arm_ms=arm_ms))
    return found


def _no_longer(on_arm: dict[str, str], stages: list[_Stage], longest_ms: float) -> dict[str, str]:
    """Return those of ``on_arm`` whose merged ARM stage takes at most ``longest_ms``.

    So the rest still moves where one stage, such as the first with the camera's picture, is as long
    as the interval already.
    """
    fits: dict[str, str] = {}
    before_ms = 0.0  # of the ARM stage that ends here
    for stage, after in zip(stages, [*stages[1:], None], strict=True):
        if stage.device == "arm":
            before_ms += stage.ms
            continue
        after_ms = after.ms if after else 0.0
        chosen = {name: on_arm[name] for name in stage.operators if name in on_arm}
        if chosen and before_ms + stage.arm_ms + after_ms <= longest_ms:
            fits |= chosen
            before_ms += stage.arm_ms
        else:
            before_ms = 0.0
    return fits


def _shorter(stages: list[_Stage], board: Board) -> dict[str, str]:
    """Return the operators of the stages whose move saves a frame's time, with the reason."""
    hops_ms = 2 * board.arm_timing.handover_us / 1e3
    short = [each for each in stages if each.device == "vta" and each.arm_ms < each.ms + hops_ms]
    return {name: reasons().short_stage for each in short for name in each.operators}


def _faster(stages: list[_Stage], board: Board) -> dict[str, str]:
    """Return the operators of the stages whose move costs a little time, with the reason."""
    hop_ms = board.arm_timing.handover_us / 1e3
    vta = sum(each.ms + hop_ms for each in stages if each.device == "vta")
    arm = sum(each.ms + hop_ms for each in stages if each.device == "arm")
    allowed = (_MOST_LATENCY - 1) * (vta + arm)
    found: dict[str, str] = {}

    def longer_ms(each: _Stage) -> float:
        return each.arm_ms - each.ms - 2 * hop_ms

    for each in sorted((each for each in stages if each.device == "vta"), key=longer_ms):
        vta -= each.ms + hop_ms
        arm += each.arm_ms - hop_ms
        allowed -= longer_ms(each)
        if allowed < 0 or arm / board.arm_cores > vta:
            break
        found |= dict.fromkeys(each.operators, reasons().time_left)
    return found
