"""Fit the timing model's costs to measured layers, by coordinate descent on a grid.

The measure is the root mean square of the errors log(modelled / measured). The costs of a GEMM step
and of an instruction are not fitted: the first is one cycle, the least possible, and instructions
are too few to matter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from bench.measured_layers import MeasuredLayer
from bench.tvm_schedule import rebuild
from vta_stages.accelerator import Accelerator
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

STEPS: Mapping[str, int] = {
    "alu_step_cycles": 1,
    "loop_cycles": 1,
    "dma_row_cycles": 10,
    "bus_efficiency_percent": 5,
    "weight_efficiency_percent": 5,
    "launch_cycles": 5000,
}
"""The fitted costs and the grid of each, no finer than ten layers can tell apart."""

FREE_AT_ZERO = ("loop_cycles", "dma_row_cycles", "launch_cycles")
"""The fitted costs that may be 0; the others are at least a step of their grid."""

MOST_PERCENT = 90
"""The highest efficiency that is tried: refresh and gaps between bursts take their share."""

DAMPINGS = (0.001, 0.003, 0.01, 0.03)
"""How much Gauss and Newton's steps are damped: by a deviation per step of the grid."""

NEARLY = 1.5
"""A fit is nearly as good as the best one up to this multiple of its deviation."""

STARTS_PERCENT = (50, 90)
"""The efficiencies from which :func:`search` starts, for weights and for everything else."""


@dataclass(slots=True, eq=False)
class MeasuredBoard:
    """The measured layers of a board, rebuilt for its accelerator; remembers modelled cycles."""

    accelerator: Accelerator
    layers: Sequence[MeasuredLayer]
    _programs: dict[int, Program] = field(default_factory=dict)
    _cycles: dict[tuple[int, CostModel], int] = field(default_factory=dict)

    def program(self, index: int) -> Program:
        """Return the rebuilt program of a layer."""
        if index not in self._programs:
            self._programs[index] = rebuild(self.layers[index], self.accelerator)
        return self._programs[index]

    def modelled_ms(self, index: int, cost: CostModel) -> float:
        """Return a layer's modelled milliseconds."""
        # The launch is only added, so programs that differ in it share a simulation.
        key = index, dataclasses.replace(cost, launch_cycles=0)
        if key not in self._cycles:
            self._cycles[key] = time_program(self.program(index), key[1]).cycles
        return 1e3 * (self._cycles[key] + cost.launch_cycles) / self.accelerator.clock_hz

    def ratio(self, index: int, cost: CostModel) -> float:
        """Return measured / modelled time of a layer."""
        return self.layers[index].milliseconds / self.modelled_ms(index, cost)

    def deviation(self, cost: CostModel, chosen: Sequence[int]) -> float:
        """Return the root mean square of the logarithms of the chosen layers' ratios."""
        squares = [math.log(self.ratio(index, cost)) ** 2 for index in chosen]
        return math.sqrt(sum(squares) / len(squares))


def fit(
    board: MeasuredBoard,
    start: CostModel,
    *,
    chosen: Sequence[int] | None = None,
    fixed: str = "",
) -> CostModel:
    """Return the costs with the least deviation that steps from ``start`` reach.

    Steps are those of Gauss and Newton, rounded to the grid, and those of one or two costs.
    ``chosen`` are the layers to fit, all by default; ``fixed`` is a cost that keeps its value.
    """
    chosen = range(len(board.layers)) if chosen is None else chosen
    free = [name for name in STEPS if name != fixed]
    signs = (-1, 1)
    singles = [{name: sign} for name in free for sign in signs]
    pairs = [
        {first: one, second: other}
        for first, second in combinations(free, 2)
        for one, other in product(signs, repeat=2)
    ]
    best, found = start, board.deviation(start, chosen)
    while True:
        # Pairs are many, so only where nothing else helps.
        for steps in (_newton_steps(board, best, chosen, free), singles, pairs):
            candidates = [cost for step in steps if (cost := _moved(best, step)) is not None]
            values = [board.deviation(cost, chosen) for cost in candidates]
            value = min(values, default=found)
            if value < found:
                best, found = candidates[values.index(value)], value
                break
        else:
            return best


def _newton_steps(
    board: MeasuredBoard, cost: CostModel, chosen: Sequence[int], free: Sequence[str]
) -> list[dict[str, int]]:
    """Return steps of Gauss and Newton, in steps of the grid: damped more and more, and rounded.

    They change several costs at once, as where slow ALU steps and slow loops explain the same time.
    """
    residuals = np.array([-math.log(board.ratio(index, cost)) for index in chosen])
    slopes = np.zeros((len(chosen), len(free)))
    for column, name in enumerate(free):
        sign = 1 if _moved(cost, {name: 1}) is not None else -1
        moved = _moved(cost, {name: sign})
        assert moved is not None, "a grid has at least two values"
        after = np.array([-math.log(board.ratio(index, moved)) for index in chosen])
        slopes[:, column] = sign * (after - residuals)
    steps = []
    for damping in DAMPINGS:
        square = slopes.T @ slopes + damping**2 * np.eye(len(free))
        step = np.linalg.solve(square, -slopes.T @ residuals)
        rounded = dict(zip(free, np.rint(step).astype(int).tolist(), strict=True))
        inside = _clipped(cost, rounded)
        if any(inside.values()) and inside not in steps:
            steps.append(inside)
    return steps


def _clipped(cost: CostModel, steps: Mapping[str, int]) -> dict[str, int]:
    """Return the steps, shortened to end on the grid."""
    clipped = {}
    for name, count in steps.items():
        least, most = _ends(name)
        value, size = getattr(cost, name), STEPS[name]
        highest = count if most is None else (most - value) // size
        clipped[name] = min(max(count, -((value - least) // size)), highest)
    return clipped


def search(
    board: MeasuredBoard, cost: CostModel, *, chosen: Sequence[int] | None = None
) -> CostModel:
    """Return the best fit from several efficiencies of the port; other costs start at ``cost``.

    Slow loads and slow loops can explain the same layers, so one start may end in a poorer fit.
    ``chosen`` are the layers to fit, all by default.
    """
    layers = range(len(board.layers)) if chosen is None else chosen
    starts = [
        dataclasses.replace(cost, bus_efficiency_percent=other, weight_efficiency_percent=weights)
        for other, weights in product(STARTS_PERCENT, repeat=2)
    ]
    return min(
        (fit(board, start, chosen=layers) for start in starts),
        key=lambda best: board.deviation(best, layers),
    )


def _ends(name: str) -> tuple[int, int | None]:
    """Return the least and the greatest value on a cost's grid, None if it has no greatest."""
    least = 0 if name in FREE_AT_ZERO else STEPS[name]
    return least, MOST_PERCENT if name.endswith("percent") else None


def _moved(cost: CostModel, directions: Mapping[str, int]) -> CostModel | None:
    """Return the costs one step further, None if the grid ends there."""
    changes = {name: getattr(cost, name) + sign * STEPS[name] for name, sign in directions.items()}
    for name, value in changes.items():
        least, most = _ends(name)
        if value < least or (most is not None and value > most):
            return None
    return dataclasses.replace(cost, **changes)


def leave_one_out(board: MeasuredBoard, start: CostModel) -> list[float]:
    """Return measured / modelled time of each layer by costs that were fitted without it.

    Each fit is a :func:`search` from ``start``, so no fit knows the layer that it leaves out.
    """
    everyone = range(len(board.layers))
    ratios = []
    for left in everyone:
        others = [index for index in everyone if index != left]
        ratios.append(board.ratio(left, search(board, start, chosen=others)))
    return ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The values of a cost that fit nearly as well as the best one, in ascending order.

    Each of ``fits`` has one of these values, and the other costs fitted again for it; ``ends`` are
    the least and the greatest value that were tried.
    """

    name: str
    fits: tuple[CostModel, ...]
    ends: tuple[int, int | None]

    @property
    def low(self) -> int:
        """The least value that fits nearly as well."""
        return int(getattr(self.fits[0], self.name))

    @property
    def high(self) -> int:
        """The greatest value that fits nearly as well."""
        return int(getattr(self.fits[-1], self.name))

    @property
    def verdict(self) -> str:
        """What the layers say about the cost: determined, a bound, or a range."""
        if self.high - self.low <= STEPS[self.name] or self.high <= 1.25 * self.low:
            return "determined"
        bounds = []
        if self.low > self.ends[0]:
            bounds.append(f"at least {self.low}")
        if self.high != self.ends[1]:
            bounds.append(f"at most {self.high}")
        return " and ".join(bounds) or "not determined"


def profiles(board: MeasuredBoard, best: CostModel) -> tuple[Profile, ...]:
    """Return for each cost what fits nearly as well as ``best``, the other costs fitted again.

    Nearly as well: with at most ``NEARLY`` times the deviation of ``best``.
    """
    everyone = range(len(board.layers))
    limit = NEARLY * board.deviation(best, everyone)
    made = []
    for name in STEPS:
        sides = []
        for sign in (-1, 1):
            side = [best]
            while (moved := _moved(side[-1], {name: sign})) is not None:
                moved = fit(board, moved, fixed=name)
                if board.deviation(moved, everyone) > limit:
                    break
                side.append(moved)
            sides.append(side[1:])
        made.append(
            Profile(name=name, fits=(*reversed(sides[0]), best, *sides[1]), ends=_ends(name))
        )
    return tuple(made)
