"""Comparisons of bundles: figures, operators that moved, and operators of one bundle only."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from report_bundles import statistics

from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement
from edgepipe.bundle_report.model import Report


def test_a_bundle_does_not_differ_from_itself(report: Report) -> None:
    found = compare(report, report)
    assert all(figure.change == 0 for figure in found.figures)
    assert all(each.this_ms == each.other_ms for each in found.operators)
    assert found.moved == ()


def test_operators_are_matched_by_name(report: Report) -> None:
    first, second, *rest = report.operators
    other = dataclasses.replace(
        report,
        name="other",
        operators=(
            first,
            dataclasses.replace(second, device="vta", ms=2 * second.ms),
            *rest[:-1],
            dataclasses.replace(rest[-1], name="new"),
        ),
    )
    found = compare(report, other)
    assert found.other == "other"
    (moved,) = found.moved
    assert (moved.name, moved.this_device, moved.other_device) == (second.name, "arm", "vta")
    assert moved.other_ms == pytest.approx(2 * second.ms)
    gone, new = found.operators[-2:]
    assert (gone.name, gone.other_device, gone.other_ms) == (rest[-1].name, "", None)
    assert (new.name, new.this_device, new.this_ms) == ("new", "", None)
    by_name = {figure.name: figure for figure in found.figures}
    assert by_name["operators on the VTA"].other == by_name["operators on the VTA"].this + 1


def test_runs_of_the_same_stages_are_compared(report: Report, tmp_path: Path) -> None:
    runs = []
    for number, name in enumerate(("after", "before"), 1):
        path = tmp_path / f"{name}.json"
        times = {"arm0": 2.0 * number, "vta1": 6.0 * number, "arm2": 1.0}
        path.write_text(json.dumps(statistics(times)))
        runs.append(with_measurement(report, path))
    found = compare(*runs)
    assert found.other == f"{report.name}, before.json"
    by_name = {figure.name: figure for figure in found.figures}
    assert by_name["measured: stage vta1, mean"].change == pytest.approx(-0.5)
    assert by_name["measured: stage arm2, mean"].change == pytest.approx(0)
    assert by_name["measured: frames per second"].unit == "1/s"
    assert not any("measured" in each.name for each in compare(report, runs[0]).figures)


def test_a_change_is_relative_to_the_other_bundle(report: Report) -> None:
    prediction = dataclasses.replace(
        report.prediction, interval_ms=2 * report.prediction.interval_ms, vta_ms=0.0
    )
    found = compare(report, dataclasses.replace(report, prediction=prediction))
    by_name = {figure.name: figure for figure in found.figures}
    assert by_name["frames per second"].change == pytest.approx(1)
    assert by_name["time between frames"].change == pytest.approx(-0.5)
    assert by_name["work on the VTA"].change is None
