"""Other cuts: the stages that a build with ``--cut`` has, and estimates that fit each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from levels import every
from report_bundles import branches, build, changed

from edgepipe.bundle import network, storage
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.reading import read_report
from edgepipe.bundle_report.what_if import what_if


@pytest.mark.parametrize("cut", every(3, ["pool", "stem_relu", "left"]))
def test_a_cut_gives_the_stages_that_a_build_with_it_has(
    report: Report, tmp_path: Path, cut: str
) -> None:
    (found,) = (each for each in report.what_if.cuts if each.operator == cut)
    again = read_report(build(tmp_path, branches(), cuts=(cut,)))
    assert len(again.stages) == found.stages
    built = again.what_if.built
    for name in ("interval_ms", "serial_ms", "arm_ms", "vta_ms"):
        assert getattr(found, name) == pytest.approx(getattr(built, name)), name


def test_estimates_are_near_the_prediction(report: Report) -> None:
    built, prediction = report.what_if.built, report.prediction
    assert built.interval_ms == pytest.approx(prediction.interval_ms, rel=0.25)
    assert built.serial_ms == pytest.approx(prediction.serial_ms, rel=0.25)
    assert built.stages == len(report.stages)


def test_the_best_cut_has_the_shortest_interval(report: Report) -> None:
    best = report.what_if.best
    assert best is not None
    assert best.interval_ms == min(cut.interval_ms for cut in report.what_if.cuts)


def test_cuts_follow_the_order_of_the_operators(report: Report) -> None:
    names = [operator.name for operator in report.operators]
    cuts = [names.index(cut.operator) for cut in report.what_if.cuts]
    assert cuts == sorted(cuts)
    assert len({*cuts}) == len(cuts)


def test_without_work_for_the_vta_there_is_no_other_cut(few_stages: Path, tmp_path: Path) -> None:
    def refuse(record: dict) -> None:
        for operator in record["operators"]:
            operator |= {"refusal": "too large", "vta_cycles": 0.0}

    path = changed(few_stages, tmp_path / "none", refuse)
    manifest = storage.read_manifest(path)
    found = what_if(manifest, network.read(path, manifest))
    assert found.cuts == ()
    assert found.best is None
