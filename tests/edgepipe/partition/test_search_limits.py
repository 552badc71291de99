"""A limit never makes the search find a faster pipeline than no limit."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from cost_tables import ULTRA96, board, chain

from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.split import Goal, find_split
from edgepipe.partition.search.table import CostTable, Row

ALIKE = 1.005  # the search takes the simpler of two pipelines that are so near


def mobilenet_v2() -> CostTable:
    """Return what MobileNetV2's operators cost on an Ultra96, as ``bench/split.py`` finds it."""
    path = Path(__file__).with_name("mobilenet_v2_costs.json")
    rows = [
        Row(name=name, inputs=tuple(inputs), arm_ms=arm_ms, vta_ms=vta_ms)
        for name, inputs, arm_ms, vta_ms in json.loads(path.read_text("utf-8"))
    ]
    return CostTable(rows=tuple(rows), board=ULTRA96)


def made_up(seed: int, rows: int, *, cores: int, hop_us: float) -> CostTable:
    """Return a chain of operators, too long for a look at every placement."""
    choose = random.Random(seed)
    costs: list[tuple[float | None, float | None]] = [
        (round(choose.uniform(0.5, 6), 2), round(choose.uniform(0.2, 2), 2)) for _ in range(rows)
    ]
    return chain((1.0, None), *costs, (1.0, None), on=board(cores=cores, hop_us=hop_us))


def limited(loaded_ms: float, stages: int, latency_ms: float) -> Iterator[Goal]:
    """Yield goals with limits around what the search without one chose."""
    for part in (0.5, 0.65, 0.9):
        yield Goal(latency_ms=part * loaded_ms)
    for part in (0.75, 1.1):
        yield Goal(stages=max(3, round(part * stages)))
    yield Goal(alone_ms=1.05 * latency_ms)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(mobilenet_v2(), id="MobileNetV2", marks=pytest.mark.networks),
        pytest.param(made_up(1, 14, cores=2, hop_us=50.0), id="14 rows on two cores"),
        pytest.param(made_up(2, 20, cores=3, hop_us=50.0), id="20 rows on three cores"),
    ],
)
def test_no_limit_is_at_least_as_fast_as_any(table: CostTable) -> None:
    judge = Judge(table)
    free = find_split(judge, Goal()).best
    for goal in limited(
        free.loaded_ms, len(free.estimate.stages.devices), free.estimate.latency_ms
    ):
        found = find_split(judge, goal).best
        assert free.interval_ms <= ALIKE * found.interval_ms, goal


def test_a_first_impression_does_not_end_the_search() -> None:
    """Of MobileNetV2's splits, one that is fast in its first frames is slower in the long run."""
    judge = Judge(mobilenet_v2())
    best = find_split(judge, Goal()).best
    assert best.interval_ms < 10.35
    assert best.interval_ms >= judge.interval_ms(best.estimate, best.slots, for_long=True)
