"""Why a pipeline cannot gain: its longest stage, a unit that stages share, one stage, one slot."""

from __future__ import annotations

import json

import pytest
from report_bundles import statistics

from edgepipe.report.pipelining_limit import (
    Limit,
    Unit,
    accelerator,
    measured_limit,
    pipelining_limit,
)
from edgepipe.runtime.statistics import Statistics, statistics_from_json

EVEN = {"arm0": 5.0, "vta1": 5.0}


def pinned(stage_ms: dict[str, float], cores: dict[str, list[int]], slots: int = 4) -> Statistics:
    """Return a pipelined run whose stages may run on ``cores``."""
    table = statistics(stage_ms, slots=slots)
    for stage in table["stages"]:
        stage["cores"] = cores[stage["name"]]
    return statistics_from_json(json.dumps(table))


def test_the_longest_stage_limits_the_gain_to_the_sum_over_it() -> None:
    limit = pipelining_limit({"arm0": 4.0, "vta1": 94.0, "arm2": 2.0}, slots=4)
    assert limit.gain == pytest.approx(100 / 94)
    assert limit.reason == "stage 2 of 3 (vta1) takes 94 % of a frame's time"


def test_the_sentence_says_where_why_and_how_much() -> None:
    limit = pipelining_limit({"arm0": 4.0, "vta1": 94.0, "arm2": 2.0}, slots=4)
    assert limit.sentence("this machine") == (
        "this machine: stage 2 of 3 (vta1) takes 94 % of a frame's time, "
        "so pipelining gains at most 1.06x"
    )


@pytest.mark.parametrize(("gain", "says"), [(1.0, True), (1.09, True), (1.1, False), (2, False)])
def test_only_a_pipeline_that_gains_less_than_a_tenth_says_why(gain: float, says: bool) -> None:
    assert bool(Limit(gain=gain, reason="why").sentence("here")) == says


def test_one_stage_has_nothing_beside_it() -> None:
    limit = pipelining_limit({"vta0": 7.0}, slots=4)
    assert limit == Limit(gain=1.0, reason="the bundle has one stage, and nothing to run beside it")


def test_one_slot_lets_one_stage_work_at_a_time() -> None:
    limit = pipelining_limit(EVEN, slots=1)
    assert limit == Limit(gain=1.0, reason="with one slot, only one stage has a frame at a time")


def test_all_vta_stages_take_turns_on_the_accelerator() -> None:
    stage_ms = {"vta0": 48.0, "arm1": 4.0, "vta2": 48.0}
    limit = pipelining_limit(stage_ms, [accelerator(["vta0", "vta2"])], slots=4)
    assert limit.gain == pytest.approx(100 / 96)
    assert limit.reason == (
        "vta0 and vta2 share the accelerator and together take 96 % of a frame's time"
    )


def test_a_unit_that_is_used_less_than_the_longest_stage_does_not_limit() -> None:
    limit = pipelining_limit(
        {"arm0": 2.0, "vta1": 6.0, "arm2": 2.0},
        [Unit(name="core 0", stages=("arm0", "arm2"))],
        slots=4,
    )
    assert limit.reason == "stage 2 of 3 (vta1) takes 60 % of a frame's time"


def test_a_unit_with_several_places_serves_as_many_stages_at_a_time() -> None:
    stage_ms = dict.fromkeys(("arm0", "arm1", "arm2", "arm3"), 25.0)
    two_cores = Unit(name="the ARM cores", stages=tuple(stage_ms), places=2)
    limit = pipelining_limit(stage_ms, [two_cores], slots=4)
    assert limit.gain == pytest.approx(2)
    assert limit.reason == (
        "4 stages share the ARM cores and together keep each busy for 50 % of a frame's time"
    )


def test_stages_without_any_time_are_refused() -> None:
    with pytest.raises(ValueError, match="expected stages that take time"):
        pipelining_limit({"arm0": 0.0, "vta1": 0.0}, slots=4)


def test_stages_that_compute_on_the_same_core_share_it() -> None:
    run = pinned(EVEN, {"arm0": [0], "vta1": [0]})
    limit = measured_limit(EVEN, run, ["vta1"], computing=EVEN)
    assert limit.gain == pytest.approx(1)
    assert limit.reason == "arm0 and vta1 share core 0 and together take 100 % of a frame's time"


def test_a_stage_that_waits_for_the_accelerator_leaves_its_core_to_others() -> None:
    run = pinned(EVEN, {"arm0": [0], "vta1": [0]})
    limit = measured_limit(EVEN, run, ["vta1"], computing=["arm0"])
    assert limit.gain == pytest.approx(2)


@pytest.mark.parametrize("cores", [{"arm0": [0], "vta1": [1]}, {"arm0": [], "vta1": []}])
def test_stages_on_cores_of_their_own_or_on_any_share_none(cores: dict[str, list[int]]) -> None:
    limit = measured_limit(EVEN, pinned(EVEN, cores), ["vta1"], computing=EVEN)
    assert limit.gain == pytest.approx(2)


def test_stages_that_share_several_cores_are_named_with_them() -> None:
    stage_ms = dict.fromkeys(("arm0", "arm1", "arm2"), 10.0)
    run = pinned(stage_ms, {name: [2, 3] for name in stage_ms})
    limit = measured_limit(stage_ms, run, [], computing=stage_ms)
    assert limit.gain == pytest.approx(2)
    assert limit.reason == (
        "arm0, arm1 and arm2 share cores 2 and 3 and together keep each busy for 50 % of a "
        "frame's time"
    )


def test_the_frames_in_flight_are_those_of_the_run() -> None:
    run = pinned(EVEN, {"arm0": [0], "vta1": [1]}, slots=1)
    assert measured_limit(EVEN, run, ["vta1"], computing=EVEN).gain == 1
