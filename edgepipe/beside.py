"""Other networks that run on the same board, and what they leave of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from edgepipe.boards import Board
from edgepipe.bundle_report.reading import read_load
from edgepipe.errors import PartitionError

_MOST = 0.95
"""Of the time of a device that other networks may take: the rest is too little for one more."""

_ROUNDED = 1.01
"""How much more than the most frames per second may be asked for: reports print rounded ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A bundle that runs on the board, too, and the frames per second that it runs at."""

    bundle: Path
    fps: float


def neighbours(given: Iterable[tuple[Path, float]]) -> tuple[Neighbour, ...]:
    """Return bundles with their frames per second. Raises ``PartitionError`` for 0 and less."""
    found = tuple(Neighbour(bundle=path, fps=fps) for path, fps in given)
    for each in found:
        if not 0 < each.fps < math.inf:
            raise PartitionError(
                f"{each.bundle}: found {each.fps} frames per second, expected more than 0",
                hint="give the frames per second that it will run at",
                option="beside",
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBoard(Board):
    """A board on which other networks run, too: modelled times are longer by what they take.

    ``vta_left`` and ``arm_left`` are the shares of the accelerator's and of the cores' time that
    are left; ``dma_bytes`` is the memory that is left.
    """

    vta_left: float
    arm_left: float

    @property
    def vta_share(self) -> float:
        return self.vta_left

    @property
    def arm_share(self) -> float:
        return self.arm_left


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A board as a network sees it beside others, and a sentence for each of these."""

    board: Board
    notices: tuple[str, ...]


def shared(board: Board, neighbours: Sequence[Neighbour]) -> Shared:
    """Return what ``neighbours`` leave of a board: of its accelerator, cores and memory.

    Each takes the time of its stages with their hops, by the costs in its bundle, for every frame,
    and contiguous memory for all its frames in flight. Raises ``PartitionError`` if a bundle is for
    another board, cannot run that fast, or if too little is left, and ``BundleError`` if it cannot
    be read.
    """
    notices = []
    vta = arm = 0.0
    taken = 0
    for each in neighbours:
        load = read_load(each.bundle)
        if load.board != board.name:
            raise PartitionError(
                f"{each.bundle}: is for the board {load.board}, expected {board.name}",
                hint="give a bundle that runs beside this network",
                option="beside",
            )
        if each.fps > _ROUNDED * load.most_fps:
            raise PartitionError(
                f"{each.bundle}: runs at most {load.most_fps:.1f} frames/s by the model, found "
                f"{each.fps:g}",
                hint="give the frames per second that it will run at",
                option="beside",
            )
        of_vta, of_arm = (
            each.fps * load.vta_ms / 1e3,
            each.fps * load.arm_ms / board.arm_cores / 1e3,
        )
        vta, arm, taken = vta + of_vta, arm + of_arm, taken + load.bytes
        notices.append(
            f"beside {each.bundle} at {each.fps:g} frames/s, which takes {100 * of_vta:.0f} % of "
            f"the accelerator's time, {100 * of_arm:.0f} % of the cores' and "
            f"{load.bytes / (1 << 20):.1f} MiB: times are those with the rest"
        )
    for what, share in (("accelerator's", vta), ("cores'", arm)):
        if share > _MOST:
            raise PartitionError(
                f"the networks beside this one take {100 * share:.0f} % of the {what} time, "
                f"expected at most {100 * _MOST:.0f} %",
                hint="give them fewer frames per second, or leave one out",
                option="beside",
            )
    if taken >= board.dma_bytes > 0:
        raise PartitionError(
            f"the networks beside this one take {taken / (1 << 20):.1f} MiB of contiguous memory, "
            f"{board.name} has {board.dma_bytes / (1 << 20):.1f}",
            hint="build them with fewer slots, or leave one out",
            option="beside",
        )
    if not neighbours:
        return Shared(board=board, notices=())
    whole = {each.name: getattr(board, each.name) for each in fields(board)}
    whole["dma_bytes"] = max(board.dma_bytes - taken, 0)
    rest = SharedBoard(**whole, vta_left=1 - vta, arm_left=1 - arm)
    return Shared(board=rest, notices=tuple(notices))
