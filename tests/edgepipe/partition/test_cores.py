"""A board's ARM cores, divided among its stages."""

import pytest

from edgepipe.partition.cores import StageCores, divide


def on(*cores):
    """A stage with a thread on each of ``cores``."""
    return StageCores(cores=cores, threads=len(cores))


@pytest.mark.parametrize(
    ("stages_ms", "expected"),
    [
        pytest.param([44.0], (on(1, 2, 3),), id="one stage has all"),
        pytest.param([44.0, 3.0], (on(1, 2), on(3)), id="the longer has more"),
        pytest.param([3.0, 44.0], (on(1), on(2, 3)), id="in the order of stages"),
        pytest.param([5.0, 5.0, 90.0], (on(1), on(2), on(3)), id="each at least one"),
        pytest.param([0.0, 0.0], (on(1, 2), on(3)), id="what the model does not count"),
        pytest.param([], (), id="no stage"),
    ],
)
def test_the_longest_stage_gets_another_core(stages_ms, expected):
    assert divide(stages_ms, (1, 2, 3)) == expected


def test_each_core_goes_to_the_stage_that_is_then_longest():
    stages = divide([80.0, 50.0, 10.0], range(6))
    assert [stage.threads for stage in stages] == [3, 2, 1]  # 26.7, 25 and 10 ms
    assert [core for stage in stages for core in stage.cores] == list(range(6))


def test_more_stages_than_cores_share_all_of_them_a_thread_each():
    shared = StageCores(cores=(1, 2, 3), threads=1)
    assert divide([9.0, 8.0, 7.0, 6.0], (1, 2, 3)) == (shared,) * 4


def test_a_board_without_cores_gives_none():
    assert divide([9.0, 8.0], ()) == (StageCores(), StageCores())
