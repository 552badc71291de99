"""Stages that share a memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_records import table

from edgepipe.partition.crew_rate import Crews
from edgepipe.partition.shared_dram import (
    operators_bytes,
    shared_interval_ms,
    stretched_ms,
    tensor_bytes,
)

MB = 1_000_000
GB_PER_S = 1_000_000_000  # a megabyte takes a millisecond


def own(stages: int) -> Crews:
    """Return crews of one thread for each stage."""
    names = tuple(map(str, range(stages)))
    return Crews(of_stages=names, threads=dict.fromkeys(names, 1))


def longest(stages_ms: Sequence[float]) -> float:
    return max(stages_ms)


def test_a_memory_with_enough_left_changes_nothing() -> None:
    assert stretched_ms([10, 20], [2 * MB, 5 * MB], own(2), GB_PER_S, 20) == (10, 20)
    assert shared_interval_ms(longest, [10, 20], [2 * MB, 5 * MB], own(2), GB_PER_S) == 20


def test_a_stage_is_not_faster_than_its_bytes_at_what_the_others_leave() -> None:
    """The second stage moves 10 MB in 20 ms, half of the bandwidth, so 6 MB take 12 ms."""
    assert stretched_ms([10, 20], [6 * MB, 10 * MB], own(2), GB_PER_S, 20) == pytest.approx(
        (12, 20)
    )
    assert stretched_ms([10, 20], [0, 18 * MB], own(2), GB_PER_S, 20) == (10, 20)


def test_all_bytes_bound_the_interval() -> None:
    found = shared_interval_ms(longest, [10, 20], [14 * MB, 16 * MB], own(2), GB_PER_S)
    assert found == pytest.approx(30)


def test_stages_that_one_thread_runs_do_not_wait_for_each_other() -> None:
    one = Crews(of_stages=("vta", "vta"), threads={"vta": 1})
    assert stretched_ms([10, 20], [9 * MB, 18 * MB], one, GB_PER_S, 30) == (10, 20)
    assert shared_interval_ms(sum, [10, 20], [9 * MB, 18 * MB], one, GB_PER_S) == 30


def test_a_stage_waits_for_the_other_threads_of_its_crew() -> None:
    """Of the second stage's 16 MB in 20 ms, half run on the other thread while the first runs."""
    two = Crews(of_stages=("arm", "arm"), threads={"arm": 2})
    expected = 9 / (1 - 16 / 2 / 20)
    assert stretched_ms([10, 20], [9 * MB, 16 * MB], two, GB_PER_S, 20)[0] == pytest.approx(
        expected
    )


def test_a_stage_waits_for_all_of_other_crews() -> None:
    who = Crews(of_stages=("arm", "vta", "vta"), threads={"arm": 1, "vta": 1})
    found = stretched_ms([10, 10, 10], [8 * MB, 4 * MB, 6 * MB], who, GB_PER_S, 20)
    assert found == pytest.approx((8 / (1 - 10 / 20), 10, 10))


def test_an_unknown_memory_adds_nothing() -> None:
    assert shared_interval_ms(longest, [10, 20], [140 * MB, 160 * MB], own(2), 0) == 20


@given(
    stages=st.lists(
        st.tuples(st.floats(0.01, 50), st.integers(0, 100 * MB)), min_size=1, max_size=8
    ),
    bytes_per_s=st.integers(GB_PER_S // 10, 10 * GB_PER_S),
)
def test_sharing_is_never_faster_and_no_stage_takes_longer_than_all_bytes(
    stages: list[tuple[float, int]], bytes_per_s: int
) -> None:
    alone, sizes = [ms for ms, _ in stages], [size for _, size in stages]
    who = own(len(stages))
    least = 1e3 * sum(sizes) / bytes_per_s
    found = shared_interval_ms(longest, alone, sizes, who, bytes_per_s)
    assert found == pytest.approx(max(longest(alone), least))
    longer = stretched_ms(alone, sizes, who, bytes_per_s, max(found, least))
    for before, after in zip(alone, longer, strict=True):
        assert before <= after <= max(before, least) * (1 + 1e-9)


def test_operators_move_their_inputs_results_and_constants() -> None:
    operators = [table("a", "x", 16, 10), table("b", "a", 16, 10)]
    assert operators_bytes(operators, {"x": 1, "a": 20, "b": 300}) == 1 + 2 * 20 + 300


def test_a_tensor_has_the_bytes_of_its_elements() -> None:
    assert tensor_bytes((1, 16, 3), "int32") == 192
    assert tensor_bytes((), "float32") == 4
    assert tensor_bytes((), "tuple") == 0
