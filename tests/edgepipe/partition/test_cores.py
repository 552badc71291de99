"""A board's ARM cores, divided among its stages."""

import pytest

from edgepipe.partition.cores import StageCores, divide, longest_ms


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


def beside(*cores):
    """A light stage, which runs on any of ``cores``."""
    return StageCores(cores=cores, is_light=True)


@pytest.mark.parametrize(
    ("stages_ms", "expected"),
    [
        pytest.param([44.0, 0.01], (on(1, 2, 3), beside(1, 2, 3)), id="a light one"),
        pytest.param([0.01, 44.0], (beside(1, 2, 3), on(1, 2, 3)), id="in the order of stages"),
        pytest.param([44.0, 1.0], (on(1, 2), on(3)), id="too long for a light one"),
        pytest.param([9.0, 8.0, 0.1], (on(1, 2), on(3), beside(1, 2, 3)), id="two and a light one"),
        pytest.param([0.0, 0.0], (on(1, 2), on(3)), id="what the model does not count"),
        pytest.param([0.1, 9.0, 8.0, 7.0], (StageCores(cores=(1, 2, 3)),) * 4, id="a crew"),
        pytest.param([], (), id="no stage"),
    ],
)
def test_a_light_stage_has_no_core_of_its_own(stages_ms, expected):
    assert divide(stages_ms, (1, 2, 3), light_percent=2) == expected


def test_the_longest_stage_is_never_shorter_than_a_light_one_allows():
    stages_ms = [10.0, 0.12]
    given = divide(stages_ms, (1, 2), light_percent=2)
    assert given == (on(1, 2), beside(1, 2))
    assert longest_ms(stages_ms, given, light_percent=2) == pytest.approx(6)
    assert longest_ms([44.0, 3.0], divide([44.0, 3.0], (1, 2, 3))) == 22
    assert longest_ms([], ()) == 0
