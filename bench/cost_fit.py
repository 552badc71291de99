"""Fit the timing model's costs to measured layers, by coordinate descent on a grid.

The measure is the root mean square of the errors log(modelled / measured). Costs that the HLS
source gives (steps, instructions) are not fitted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from bench.measured_layers import MeasuredLayer
from bench.tvm_schedule import rebuild
from vta_stages.accelerator import Accelerator
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

STEPS: Mapping[str, int] = {
    "loop_cycles": 1,
    "dma_row_cycles": 10,
    "bus_efficiency_percent": 5,
    "weight_efficiency_percent": 5,
    "launch_cycles": 5000,
}
"""The fitted costs and the grid of each, no finer than ten layers can tell apart."""

MOST_PERCENT = 90
"""The highest efficiency that is tried: refresh and gaps between bursts take their share."""

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
    """Return the costs with the least deviation that single and paired steps from ``start`` reach.

    ``chosen`` are the layers to fit, all by default; ``fixed`` is a cost that keeps its value.
    """
    chosen = range(len(board.layers)) if chosen is None else chosen
    free = [name for name in STEPS if name != fixed]
    best, found = start, board.deviation(start, chosen)
    while True:
        candidates = [
            cost
            for first in free
            for second in free
            for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            if (cost := _moved(best, {first: signs[0], second: signs[1]})) is not None
        ]
        values = [(board.deviation(cost, chosen), index) for index, cost in enumerate(candidates)]
        value, index = min(values)
        if value >= found:
            return best
        best, found = candidates[index], value


def search(board: MeasuredBoard, cost: CostModel) -> CostModel:
    """Return the best fit from several efficiencies of the port; other costs start at ``cost``.

    Slow loads and slow loops can explain the same layers, so one start may end in a poorer fit.
    """
    starts = [
        dataclasses.replace(cost, bus_efficiency_percent=other, weight_efficiency_percent=weights)
        for other, weights in product(STARTS_PERCENT, repeat=2)
    ]
    everyone = range(len(board.layers))
    return min(
        (fit(board, start) for start in starts), key=lambda best: board.deviation(best, everyone)
    )


def _moved(cost: CostModel, directions: Mapping[str, int]) -> CostModel | None:
    """Return the costs one step further, None if the grid ends there."""
    changes = {name: getattr(cost, name) + sign * STEPS[name] for name, sign in directions.items()}
    for name, value in changes.items():
        low = STEPS[name] if name.endswith("percent") else 0
        if value < low or (name.endswith("percent") and value > MOST_PERCENT):
            return None
    return dataclasses.replace(cost, **changes)


def leave_one_out(board: MeasuredBoard, start: CostModel) -> list[float]:
    """Return measured / modelled time of each layer by costs that were fitted without it."""
    everyone = range(len(board.layers))
    return [
        board.ratio(left, fit(board, start, chosen=[index for index in everyone if index != left]))
        for left in everyone
    ]


def determined(board: MeasuredBoard, best: CostModel) -> dict[str, tuple[int, int]]:
    """Return for each cost the range that fits nearly as well, the other costs fitted again.

    Nearly as well: with at most 1.5 times the deviation of ``best``. A wide range means that the
    layers do not determine the cost.
    """
    everyone = range(len(board.layers))
    limit = 1.5 * board.deviation(best, everyone)
    ranges = {}
    for name in STEPS:
        ends = []
        for sign in (-1, 1):
            edge = best
            while (moved := _moved(edge, {name: sign})) is not None:
                moved = fit(board, moved, fixed=name)
                if board.deviation(moved, everyone) > limit:
                    break
                edge = moved
            ends.append(getattr(edge, name))
        ranges[name] = (ends[0], ends[1])
    return ranges
