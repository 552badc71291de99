"""The dynamic programming over rows finds the best of all placements."""

from __future__ import annotations

import pytest
from cost_tables import chain, every_estimate, tables, with_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.partition.search.judge import Estimate, Judge
from edgepipe.partition.search.labels import Aim, Limits, search_labels
from edgepipe.partition.search.table import CostTable


def best_found(judge: Judge, aim: Aim, limits: Limits) -> list[Estimate]:
    found = []
    for own_cores in (True, False):
        result = search_labels(judge.table, aim, limits, own_cores=own_cores)
        assert result.is_complete
        found += [judge.estimate(placement) for placement in result.placements]
    return found


@given(table=tables(10))
@settings(max_examples=60, deadline=None)
def test_the_shortest_latency_is_found(table: CostTable) -> None:
    judge = Judge(table)
    found = best_found(judge, Aim.LATENCY, Limits())
    least = min(each.latency_ms for each in every_estimate(judge))
    assert min(each.latency_ms for each in found) == pytest.approx(least)


@given(table=tables(10))
@settings(max_examples=60, deadline=None)
def test_the_least_busy_time_is_found(table: CostTable) -> None:
    judge = Judge(table)
    found = best_found(judge, Aim.BUSY, Limits())
    least = min(each.busy_ms for each in every_estimate(judge))
    assert min(each.busy_ms for each in found) == pytest.approx(least)


@given(table=tables(10))
@settings(max_examples=60, deadline=None)
def test_the_lowest_floor_of_the_interval_is_found(table: CostTable) -> None:
    judge = Judge(table)
    least = min(each.floor_ms for each in every_estimate(judge))
    found = best_found(judge, Aim.INTERVAL, Limits(interval_ms=least))
    assert min(each.floor_ms for each in found) <= 1.02 * least


@given(table=tables(8))
@settings(max_examples=40, deadline=None)
def test_no_placement_beats_the_bound_of_a_weight(table: CostTable) -> None:
    judge = Judge(table)
    least = min(each.floor_ms for each in every_estimate(judge))
    for weight in (0.25, 0.5, 1.0):
        found = search_labels(table, Aim.INTERVAL, Limits(), own_cores=False, weight=weight)
        assert found.bound_ms <= least * (1 + 1e-9)


@given(
    table=tables(8),
    sizes=st.lists(st.integers(0, 1 << 22), min_size=8, max_size=8),
    aim=st.sampled_from(Aim),
)
@settings(max_examples=60, deadline=None)
def test_no_placement_beats_the_bound_with_the_maintenance_of_caches(
    table: CostTable, sizes: list[int], aim: Aim
) -> None:
    judge = Judge(with_bytes(table, sizes, 333))
    every = every_estimate(judge)
    value = {
        Aim.INTERVAL: lambda each: each.floor_ms,
        Aim.LATENCY: lambda each: each.latency_ms,
        Aim.BUSY: lambda each: each.busy_ms,
    }[aim]
    bounds = [
        search_labels(judge.table, aim, Limits(), own_cores=own).bound_ms for own in (True, False)
    ]
    assert min(bounds) <= min(map(value, every)) * (1 + 1e-9)


def test_a_large_tensor_keeps_a_row_on_its_device() -> None:
    costs = chain((1, None), (2.0, 1.0), (2.0, 2.5), (2.0, 1.0), (1, None))
    small, large = (
        search_labels(
            with_bytes(costs, [size] * 5, 333), Aim.BUSY, Limits(), own_cores=False
        ).placements[0]
        for size in (1 << 10, 1 << 20)
    )
    assert small == (False, True, False, True, False)
    assert large == (False, False, False, False, False)


@given(table=tables(8))
@settings(max_examples=40, deadline=None)
def test_no_placement_has_more_stages_than_allowed(table: CostTable) -> None:
    judge = Judge(table)
    for own_cores in (True, False):
        found = search_labels(table, Aim.BUSY, Limits(stages=3), own_cores=own_cores)
        for placement in found.placements:
            assert len(judge.estimate(placement).stages.devices) <= 3
