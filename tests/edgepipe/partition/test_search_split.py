"""The search chooses what a look at every placement would choose, and says what it found."""

from __future__ import annotations

import pytest
from cost_tables import board, chain, every_estimate, least_interval_ms, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.errors import PartitionError
from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.split import Goal, find_split
from edgepipe.partition.search.table import CostTable, Row


@given(table=tables(9))
@settings(max_examples=60, deadline=None)
def test_the_rate_is_within_2_percent_of_the_best_of_all(table: CostTable) -> None:
    judge = Judge(table)
    found = find_split(judge, Goal(), few=0)
    assert found.best.interval_ms <= 1.02 * least_interval_ms(judge)
    assert found.bound_ms <= found.best.interval_ms


def test_a_bound_holds_although_its_sums_have_another_order() -> None:
    costs = {
        "r0": ((), 16.193750511820824, None),
        "r1": ((0,), 1.0, 9.0),
        "r2": ((1,), 8.722424856443904, None),
        "r3": ((2,), 1.0, 1.0),
        "r4": ((3,), 5.128645303479095, None),
        "r5": ((2, 3), 7.0, None),
        "r6": ((5,), 1.0, 1.0),
        "r7": ((6,), 1.0, 1.0),
        "r8": ((5,), 1.0, 1.0),
    }
    rows = [
        Row(name=name, inputs=inputs, arm_ms=arm, vta_ms=vta)
        for name, (inputs, arm, vta) in costs.items()
    ]
    found = find_split(Judge(CostTable(rows=tuple(rows), board=board(cores=1))), Goal(), few=0)
    assert found.bound_ms <= found.best.interval_ms
    assert found.bound_ms == pytest.approx(found.best.interval_ms)


@given(table=tables(9), objective=st.sampled_from(("latency", "energy-proxy")))
@settings(max_examples=40, deadline=None)
def test_the_other_objectives_are_met_as_well_as_can_be(table: CostTable, objective: str) -> None:
    judge = Judge(table)
    best = find_split(judge, Goal(objective=objective), few=0).best.estimate
    every = every_estimate(judge)
    if objective == "latency":
        assert best.latency_ms <= 1.005 * min(each.latency_ms for each in every) + 1e-9
    else:
        assert best.busy_ms <= 1.005 * min(each.busy_ms for each in every) + 1e-9


def test_a_small_network_is_searched_in_full() -> None:
    table = chain((1, None), (90, 4), (2, 0.1), (90, 4), (1, None))
    found = find_split(Judge(table), Goal())
    assert found.is_complete
    assert found.best.estimate.placement == (False, True, True, True, False)
    assert found.best.interval_ms == pytest.approx(8.1 + table.launch_ms + table.hop_ms)


def test_more_stages_are_chosen_only_if_they_are_faster() -> None:
    """A row in the middle takes as long on ARM as it saves, so hops decide."""
    costs = [(1.0, None), (90.0, 4.0), (0.9, 1.0), (90.0, 4.0), (1.0, None)]
    dear, free = (chain(*costs, on=board(hop_us=us)) for us in (2000.0, 0.0))
    assert len(find_split(Judge(dear), Goal()).best.estimate.stages.devices) == 3
    assert len(find_split(Judge(free), Goal()).best.estimate.stages.devices) == 5


def test_the_goals_limits_are_kept() -> None:
    table = chain((1, None), (9, 4), (2, 1), (6, 4), (3, 1), (2, 9), (9, 4), (1, None))
    judge = Judge(table)
    fast = find_split(judge, Goal()).best
    few = find_split(judge, Goal(stages=1)).best
    assert len(few.estimate.stages.devices) == 1
    soon = find_split(judge, Goal(latency_ms=0.9 * fast.loaded_ms)).best
    assert soon.loaded_ms <= 0.9 * fast.loaded_ms < fast.loaded_ms
    alone = find_split(judge, Goal(alone_ms=0.9 * fast.estimate.latency_ms)).best
    assert alone.estimate.latency_ms <= 0.9 * fast.estimate.latency_ms
    assert find_split(judge, Goal(slots=1)).best.slots == 1
    assert alone.interval_ms >= fast.interval_ms
    assert soon.interval_ms >= fast.interval_ms


def test_impossible_limits_say_what_is_possible() -> None:
    judge = Judge(chain((1, None), (None, 4), (2, 1), (1, None)))
    with pytest.raises(PartitionError, match="no split has at most 2 stages, expected 3") as few:
        find_split(judge, Goal(stages=2))
    assert few.value.hint == "allow more stages"
    assert (few.value.option, few.value.value) == ("stages", "3")
    with pytest.raises(
        PartitionError, match=r"no split gives results within 3 ms: the fastest takes 6\.71 ms"
    ) as soon:
        find_split(judge, Goal(latency_ms=3))
    assert soon.value.hint == "allow more time, or use a smaller network or picture"
    assert soon.value.option == "max_latency_ms"
    assert find_split(judge, Goal(latency_ms=float(soon.value.value))).best.slots == 1


def test_memory_limits_the_frames_in_flight() -> None:
    table = chain((4, None), (9, 4), (4, None))
    free, tight = Judge(table), Judge(table, lambda placement, wanted: 1)
    assert find_split(free, Goal()).best.slots == 5
    found = find_split(tight, Goal()).best
    assert found.slots == 1
    assert found.interval_ms == pytest.approx(found.estimate.latency_ms)


def test_a_known_placement_is_never_beaten_by_the_choice() -> None:
    table = chain((1, None), (9, 4), (2, 1), (9, 4), (1, None))
    for known in ((False, True, False, True, False), (False,) * 5):
        judge = Judge(table)
        found = find_split(judge, Goal(), [known])
        every = [found.best, *found.others]
        assert known in [option.estimate.placement for option in every]
        assert found.best.interval_ms <= 1.005 * min(option.interval_ms for option in every)


def test_the_same_search_gives_the_same_choice() -> None:
    table = chain(*[(1, None), *[(3, 2), (2, 3), (1, 1)] * 8, (1, None)])
    first, second = (find_split(Judge(table), Goal()) for _ in range(2))
    assert first == second


def test_a_placement_that_is_only_simulated_to_be_faster_is_found() -> None:
    """Its floor is higher than that of another one, whose stages wait for each other."""
    both: list[tuple[float | None, float | None]] = [
        *((7, None), (3, 1), (None, 1), (8, 4), (None, 4)),
        *((8, 1), (8, 2), (9, 4), (8, 1), (5, None)),
    ]
    judge = Judge(chain(*both, on=board(cores=2, hop_us=0.0)))
    best = find_split(judge, Goal(), few=0).best
    assert best.interval_ms <= 1.02 * least_interval_ms(judge)
