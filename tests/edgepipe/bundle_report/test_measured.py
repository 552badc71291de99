"""Statistics of runs: every form that programs write, and files that are something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_bundles import statistics

from edgepipe.bundle_report.measured import with_measurement
from edgepipe.bundle_report.model import Report
from edgepipe.errors import BundleError

TIMES = {"arm0": 2.0, "vta1": 6.0, "arm2": 1.0}
REMEDY = "give the JSON that `edgepipe-run`, `edgepipe bench` or `edgepipe top` writes, or a trace"


def line(**changes: Any) -> dict[str, Any]:
    """Return a line of ``edgepipe top --json``."""
    return {"live": {"device": "timed", "pipeline": statistics(TIMES, **changes)}}


@pytest.mark.parametrize(
    ("text", "device"),
    [
        (json.dumps(statistics(TIMES)), ""),
        (json.dumps(statistics(TIMES), indent=1), ""),
        (json.dumps({"statistics": statistics(TIMES)}), ""),
        ('{"frame": 0}\n' + json.dumps({"statistics": statistics(TIMES)}) + "\n", ""),
        (json.dumps({"statistics": statistics(TIMES), "device": "uio"}), "uio"),
        (json.dumps({"pipelined": {"statistics": statistics(TIMES), "device": "uio"}}), "uio"),
        (json.dumps(line(delivered=3)) + "\n" + json.dumps(line()) + "\n{broken", "timed"),
    ],
    ids=[
        "alone",
        "indented",
        "of edgepipe-run",
        "after results",
        "with device",
        "of edgepipe bench",
        "of edgepipe top",
    ],
)
def test_statistics_are_read_in_every_form(
    report: Report, tmp_path: Path, text: str, device: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    found = with_measurement(report, path).measurement
    assert found is not None
    assert (found.source, found.device, found.delivered) == ("run.jsonl", device, 50)
    assert {stage.name: stage.mean_ms for stage in found.stages} == TIMES
    assert found.frames_per_second == 49.5


def test_the_timeline_has_the_measured_times(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(statistics(TIMES)))
    found = with_measurement(report, path).measurement
    assert found is not None
    lane = found.timeline.lanes.index("vta")
    whole = [run for run in found.timeline.runs if run.lane == lane][1:-1]
    assert whole
    assert all(run.end_ms - run.begin_ms == pytest.approx(6) for run in whole)


def refused(report: Report, path: Path) -> tuple[str, str]:
    with pytest.raises(BundleError) as error:
        with_measurement(report, path)
    return str(error.value), error.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no statistics, expected an object of JSON with them"),
        ("[1, 2]", "found no statistics"),
        ('{"events": []}', "found no statistics"),
        ("\x00\xff", "found no statistics"),
        ('{"pipelined": 3}', "found no statistics"),
        ('{"stages": 3}', "the statistics are damaged, or of another version"),
        ('{"stages": []}', "the statistics are damaged"),
        (json.dumps(statistics(TIMES, delivered="many")), "the statistics are damaged"),
        (json.dumps(statistics(TIMES, frames_per_second=float("nan"))), "statistics are damaged"),
        (json.dumps(statistics(TIMES, colour=1)), "the statistics are damaged"),
        (json.dumps(statistics(TIMES, delivered=0)), "statistics of a run without frames"),
        (json.dumps(statistics(TIMES | {"vta1": -1.0})), "statistics of a run without frames"),
        (json.dumps(statistics(TIMES, slots=0)), "slots is 0, expected 1 to 4096"),
        (json.dumps(statistics(TIMES, slots=10**9)), "slots is 1000000000, expected 1 to 4096"),
    ],
)
def test_a_file_without_usable_statistics_is_refused(
    report: Report, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="latin-1")
    found, hint = refused(report, path)
    assert message in found
    assert hint == REMEDY


def test_a_file_that_cannot_be_read_is_refused(report: Report, tmp_path: Path) -> None:
    message, hint = refused(report, tmp_path / "none.json")
    assert message.endswith("none.json: cannot be read (No such file or directory)")
    assert hint == REMEDY


def test_a_file_that_is_too_large_is_not_read(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    message, hint = refused(report, path)
    assert "1099511627776 bytes, expected at most 268435456" in message
    assert hint == "give only the last line, which has the statistics, or a shorter trace"


def test_statistics_of_another_bundle_are_refused(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(statistics({f"s{n}": 1.0 for n in range(9)})))
    message, hint = refused(report, path)
    assert (
        "statistics of stages s0, s1, s2, s3, s4, s5 and 3 more, expected those of net" in message
    )
    assert message.endswith("arm0, vta1, arm2")
    assert hint == "give the statistics of a run of this bundle"
