"""Made-up cost tables for the search, and the best of all placements of a small one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import strategies as st

from edgepipe import boards
from edgepipe.boards import Board, StageThreads, Threads
from edgepipe.partition.search.judge import Estimate, Judge
from edgepipe.partition.search.split import every_placement
from edgepipe.partition.search.table import CostTable, Row

ULTRA96 = boards.load("ultra96")
TWO_CORES = dataclasses.replace(ULTRA96, cores=2, threads=Threads())


def board(
    *, cores: int = 3, hop_us: float = 50.0, divided: bool = True, light_percent: int = 0
) -> Board:
    """Return an Ultra96 with other cores and hops; undivided cores give each stage one thread."""
    own = StageThreads(cores=tuple(range(cores)), light_percent=light_percent)
    threads = Threads(arm=own) if divided else Threads()
    timing = dataclasses.replace(ULTRA96.arm_timing, handover_us=hop_us)
    return dataclasses.replace(ULTRA96, cores=cores, threads=threads, arm_timing=timing)


def chain(*costs: tuple[float | None, float | None], on: Board = ULTRA96) -> CostTable:
    """Return a table of rows that follow each other, by their times on ARM and on the VTA."""
    rows = [
        Row(name=f"r{n}", inputs=(n - 1,) if n else (), arm_ms=arm, vta_ms=vta)
        for n, (arm, vta) in enumerate(costs)
    ]
    return CostTable(rows=tuple(rows), board=on)


def with_bytes(table: CostTable, row_bytes: Sequence[int], cache_kib_cycles: int) -> CostTable:
    """Return a table whose rows make tensors of these bytes, whose caches have to be maintained."""
    read = {each for row in table.rows for each in row.inputs}
    timing = dataclasses.replace(table.board.timing, cache_kib_cycles=cache_kib_cycles)
    rows = tuple(
        dataclasses.replace(
            row,
            input_bytes=tuple(row_bytes[each] for each in row.inputs),
            result_bytes=0 if number in read else row_bytes[number],
        )
        for number, row in enumerate(table.rows)
    )
    return CostTable(rows=rows, board=dataclasses.replace(table.board, timing=timing))


def tables(most_rows: int) -> st.SearchStrategy[CostTable]:
    """Return tables of networks that begin on ARM, with branches, on boards of several kinds.

    The tensors between their rows have no bytes.
    """

    @st.composite
    def made(draw: st.DrawFn) -> CostTable:
        arm, vta = st.floats(0.01, 30), st.floats(0.01, 10)
        rows = [Row(name="r0", inputs=(), arm_ms=draw(arm), vta_ms=None)]
        for number in range(1, draw(st.integers(2, most_rows))):
            near = st.integers(max(0, number - 3), number - 1)
            inputs = {number - 1} if draw(st.booleans()) else draw(st.sets(near, min_size=1))
            can = draw(st.sampled_from(("both", "both", "both", "both", "arm", "vta")))
            rows.append(
                Row(
                    name=f"r{number}",
                    inputs=tuple(sorted(inputs)),
                    arm_ms=None if can == "vta" else draw(arm),
                    vta_ms=None if can == "arm" else draw(vta),
                )
            )
        on = board(
            cores=draw(st.integers(1, 4)),
            hop_us=draw(st.sampled_from((0.0, 50.0, 500.0))),
            divided=draw(st.booleans()),
            light_percent=draw(st.sampled_from((0, 0, 2, 20))),
        )
        return CostTable(rows=tuple(rows), board=on)

    return made()


def every_estimate(judge: Judge) -> list[Estimate]:
    """Return the estimates of all placements of the judge's table."""
    return [judge.estimate(placement) for placement in every_placement(judge.table.rows)]


def least_interval_ms(judge: Judge) -> float:
    """Return the shortest simulated interval of all placements; those that cannot win are not
    simulated, because no interval is below its floor."""
    best = float("inf")
    for estimate in sorted(every_estimate(judge), key=lambda each: each.floor_ms):
        if estimate.floor_ms >= best:
            break
        best = min(best, judge.interval_ms(estimate, estimate.slots))
    return best
