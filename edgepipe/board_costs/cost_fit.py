"""Find the costs of an accelerator from the times of its probe programs.

Each cost follows from the difference of two programs, in which nearly everything else is equal. The
costs that are not equal in both come from other pairs, so the pairs are solved in turn until no
cost changes. The timing model gives the cycles of a program by given costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgepipe.board_costs.probes import CACHED, EMPTY
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

_MOST_ROUNDS = 5
_MOST_TRIALS = 12


@dataclass(frozen=True, slots=True)
class Pair:
    """Two programs whose difference gives ``cost``, from ``least`` to ``most``."""

    cost: str
    more: str
    less: str
    least: int
    most: int


PAIRS = (
    Pair("gemm_step_cycles", "gemm_steps", "gemm_half", 1, 100),
    Pair("loop_cycles", "gemm_loops", "gemm_half", 0, 1000),
    Pair("alu_step_cycles", "alu_steps", "alu_half", 1, 100),
    Pair("alu_vector_step_cycles", "vector_steps", "vector_half", 1, 100),
    Pair("bus_efficiency_percent", "input_bytes", "input_half", 1, 100),
    Pair("weight_efficiency_percent", "weight_bytes", "weight_half", 1, 100),
    Pair("dma_row_cycles", "input_rows", "input_flat", 0, 10_000),
    Pair("store_row_cycles", "store_rows", "store_flat", 1, 10_000),
    Pair("instruction_cycles", "gemm_instructions", "gemm_one", 0, 10_000),
    Pair("tensor_load_cycles", "input_loads", "input_few", 0, 10_000),
    Pair("cache_kib_cycles", CACHED, EMPTY, 0, 100_000),
)
"""The pairs in the order in which they are solved."""

LONE_ROWS = Pair("dma_row_cycles", "accumulator_loads", "gemm_instructions", 0, 10_000)
"""Replaces the pair of this cost if the latencies of a load's rows overlap."""

SAME_AS: Mapping[str, str] = {
    "alu_vector_step_cycles": "alu_step_cycles",
    "store_row_cycles": "dma_row_cycles",
    "weight_efficiency_percent": "bus_efficiency_percent",
}
"""Costs that are written as 0 if they equal another one."""

KEPT = ("bus_bytes", "burst_bytes", "reads_in_flight", "store_burst_bytes", "store_burst_cycles")
"""Costs that describe how the port works. They are not measured, but kept as the board has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The costs, and what they make of each program: its cycles, beside those that were measured.

    ``undetermined`` costs have no effect on their pair and were kept; ``at_limit`` ones would have
    to be smaller or larger than the timing model allows.
    """

    costs: CostModel
    measured_cycles: Mapping[str, float]
    modelled_cycles: Mapping[str, int]
    undetermined: tuple[str, ...] = ()
    at_limit: tuple[str, ...] = ()

    def error(self, name: str) -> float:
        """Return by what share the modelled cycles of a program exceed the measured ones."""
        return self.modelled_cycles[name] / self.measured_cycles[name] - 1

    @property
    def worst(self) -> str:
        """The program with the largest error, apart from the one that does nothing."""
        return max(
            (name for name in self.measured_cycles if name != EMPTY),
            key=lambda name: abs(self.error(name)),
        )


def fit_costs(
    programs: Mapping[str, Program], measured_us: Mapping[str, float], board: CostModel
) -> Fit:
    """Return the costs that explain the time in microseconds of every program.

    Of ``board``, the board's costs so far, only the ``KEPT`` ones matter; a cost that the programs
    do not determine keeps its value, too.
    """
    return _Fitting(programs, measured_us, board).run()


@dataclass(slots=True)
class _Fitting:
    """The costs so far. Call :meth:`run` once."""

    programs: Mapping[str, Program]
    measured_us: Mapping[str, float]
    board: CostModel
    measured: dict[str, float] = field(default_factory=dict)
    undetermined: set[str] = field(default_factory=set)
    at_limit: set[str] = field(default_factory=set)

    def run(self) -> Fit:
        """Solve all pairs in turn, then the launch."""
        clock_hz = next(iter(self.programs.values())).accelerator.clock_hz
        self.measured = {n: us * clock_hz / 1e6 for n, us in self.measured_us.items()}
        kept = {name: getattr(self.board, name) for name in KEPT}
        same = CostModel()
        costs = dataclasses.replace(
            same, **kept, **{name: getattr(same, other) for name, other in SAME_AS.items()}
        )
        together = self.board.reads_in_flight > 1
        for _ in range(_MOST_ROUNDS):
            before = costs
            for pair in PAIRS:
                replaced = together and pair.cost == LONE_ROWS.cost
                costs = self._solve(LONE_ROWS if replaced else pair, costs)
            if costs == before:
                break
        launch = self.measured[EMPTY] - self._cycles(EMPTY, costs)
        costs = dataclasses.replace(costs, launch_cycles=max(round(launch), 0))
        shared = {
            n: 0 for n, other in SAME_AS.items() if getattr(costs, n) == getattr(costs, other)
        }
        costs = dataclasses.replace(costs, **shared)
        return Fit(
            costs=costs,
            measured_cycles=self.measured,
            modelled_cycles={name: self._cycles(name, costs) for name in self.programs},
            undetermined=tuple(sorted(self.undetermined)),
            at_limit=tuple(sorted(self.at_limit)),
        )

    def _cycles(self, name: str, costs: CostModel) -> int:
        return time_program(self.programs[name], costs).cycles

    def _solve(self, pair: Pair, costs: CostModel) -> CostModel:
        """Return ``costs`` with that of a pair, the other costs being right."""
        target = self.measured[pair.more] - self.measured[pair.less]

        def excess(value: int) -> float:
            tried = dataclasses.replace(costs, **{pair.cost: value})
            return self._cycles(pair.more, tried) - self._cycles(pair.less, tried) - target

        found = nearest_root(excess, getattr(costs, pair.cost), pair.least, pair.most)
        self.undetermined.discard(pair.cost)
        self.at_limit.discard(pair.cost)
        if found is None:
            self.undetermined.add(pair.cost)
            found = getattr(self.board, pair.cost) or getattr(
                self.board, SAME_AS.get(pair.cost, pair.cost)
            )
        elif found in (pair.least, pair.most) and _is_beyond(excess, found, pair):
            self.at_limit.add(pair.cost)
        return dataclasses.replace(costs, **{pair.cost: found})


def _is_beyond(excess: Callable[[int], float], limit: int, pair: Pair) -> bool:
    """Whether a value beyond the limit by at least one would be nearer."""
    inside = limit + 1 if limit == pair.least else limit - 1
    step = abs(excess(inside) - excess(limit))
    return abs(excess(limit)) > step


def nearest_root(excess: Callable[[int], float], start: int, least: int, most: int) -> int | None:
    """Return the whole number from ``least`` to ``most`` at which a monotonic function is nearest
    to 0, None if its value hardly depends on the number.

    Newton's method from ``start``, with the differences of neighbours as slopes.
    """
    known: dict[int, float] = {}

    def at(value: int) -> float:
        if value not in known:
            known[value] = excess(value)
        return known[value]

    value = min(max(start, least), most)
    for _ in range(_MOST_TRIALS):
        beside = value + 1 if value < most else value - 1
        slope = (at(beside) - at(value)) / (beside - value)
        if not slope:
            return None
        following = min(max(round(value - at(value) / slope), least), most)
        if following in known:
            break
        value = following
    return min(known, key=lambda each: abs(known[each]))
