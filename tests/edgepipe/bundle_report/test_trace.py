"""Traces of runs: the measured timeline, and files that are damaged or of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_bundles import statistics, trace

from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement, with_trace
from edgepipe.bundle_report.model import Measurement, Report
from edgepipe.bundle_report.text import as_table, to_text
from edgepipe.errors import BundleError

TIMES = {"arm0": 2.0, "vta1": 6.0, "arm2": 1.0}
REMEDY = "give a trace that `edgepipe-run`, `edgepipe-cam` or `edgepipe run` has written"


def save(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def measured(report: Report) -> Measurement:
    assert report.measurement is not None
    return report.measurement


def changed(key: str, value: Any) -> dict[str, Any]:
    """Return a trace whose first run of a stage, event 6, has another value."""
    made = trace(TIMES)
    event = made["traceEvents"][6]
    assert event["name"] == "arm0"
    (event["args"] if key == "frame" else event)[key] = value
    return made


def test_a_trace_is_known_by_its_content(report: Report, tmp_path: Path) -> None:
    path = save(tmp_path / "trace.json", trace(TIMES))
    found = measured(with_measurement(report, path))
    assert found == measured(with_trace(report, path))
    assert (found.source, found.trace, found.delivered, found.failed) == (path.name,) * 2 + (20, 0)
    assert (found.dropped, found.slots) == (None, None)
    assert {stage.name: stage.mean_ms for stage in found.stages} == pytest.approx(TIMES)
    assert found.frames_per_second == pytest.approx(1e3 / 6)  # the longest stage limits
    assert found.stages[1].utilisation > 0.9
    assert found.latency_median_ms >= 9


def test_the_timeline_has_single_frames_with_their_numbers(report: Report, tmp_path: Path) -> None:
    made = trace(TIMES, first=100)
    slow = [e for e in made["traceEvents"] if e.get("args") == {"frame": 110} and e["tid"] == 3]
    slow[0]["dur"] = 5500.0
    found = measured(with_trace(report, save(tmp_path / "trace.json", made)))
    assert found.timeline.lanes == tuple(TIMES)
    lane = found.timeline.lanes.index("vta1")
    runs = {run.frame: run.end_ms - run.begin_ms for run in found.timeline.runs if run.lane == lane}
    assert {108, 109, 110, 111} <= {*runs}
    assert runs[110] == pytest.approx(5.5)
    assert runs[109] == pytest.approx(6)
    assert all(0 <= run.begin_ms < run.end_ms for run in found.timeline.runs)
    assert max(run.end_ms for run in found.timeline.runs) == pytest.approx(found.timeline.ms)


def test_failed_frames_are_counted_and_not_delivered(report: Report, tmp_path: Path) -> None:
    made = trace(TIMES)
    made["traceEvents"][7]["args"]["failed"] = True
    found = measured(with_trace(report, save(tmp_path / "trace.json", made)))
    assert (found.delivered, found.failed) == (19, 1)


def test_statistics_have_the_figures_and_their_trace_the_timeline(
    report: Report, tmp_path: Path
) -> None:
    run = save(tmp_path / "run.json", statistics(TIMES))
    recorded = save(tmp_path / "trace.json", trace(TIMES))
    found = measured(with_measurement(report, run, recorded))
    assert (found.source, found.trace, found.delivered) == ("run.json", "trace.json", 50)
    assert (found.dropped, found.slots) == (0, 4)
    assert found.timeline == measured(with_trace(report, recorded)).timeline


def test_text_and_json_have_the_measured_timeline_beside_the_predicted_one(
    report: Report, tmp_path: Path
) -> None:
    recorded = with_trace(report, save(tmp_path / "trace.json", trace(TIMES)))
    text = to_text(recorded)
    assert "20 frames delivered, 0 failed" in text
    predicted, shown = text.split("timeline by the model, ")[1].split("\ntimeline ")
    assert shown.startswith("measured (trace.json), frames as they ran, ")
    (lane,) = (line for line in shown.splitlines() if line.startswith("  vta1 "))
    assert all(digit in lane for digit in "8901")  # frames 8 to 11
    assert len({len(line) for line in shown.splitlines()[1:]}) == 1
    assert "  vta" in predicted
    table = as_table(recorded)["measurement"]
    assert table["trace"] == "trace.json"
    assert table["timeline"]["lanes"] == tuple(TIMES)


def test_runs_that_are_known_from_traces_are_compared(report: Report, tmp_path: Path) -> None:
    recorded = with_trace(report, save(tmp_path / "trace.json", trace(TIMES)))
    run = with_measurement(report, save(tmp_path / "run.json", statistics(TIMES)))
    names = [figure.name for figure in compare(recorded, run).figures]
    assert "measured: frames failed" in names
    assert "measured: frames dropped" not in names


def refused(report: Report, path: Path) -> tuple[str, str]:
    with pytest.raises(BundleError) as error:
        with_trace(report, path)
    return str(error.value), error.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no trace, expected an object of JSON with traceEvents"),
        (json.dumps(statistics(TIMES)), "found no trace"),
        (json.dumps(trace(TIMES))[:-200], "the trace is damaged in line 1, expected one object"),
        ('{"traceEvents": ' + "[" * 100_000, "the trace is damaged, expected one object of JSON"),
        ('{"traceEvents": "none"}', 'traceEvents is "none", expected a list of events'),
        ('{"traceEvents": [3]}', "event 0 of the trace is 3, expected an object"),
        ('{"traceEvents": []}', "found no run of a stage in the trace, expected those of net"),
        (
            '{"traceEvents": [{"ph": "X", "name": "paint", "cat": "browser", "ts": 1, "dur": 2}]}',
            "found no run of a stage in the trace",
        ),
        (
            json.dumps(changed("ts", "soon")),
            'event 6 of the trace: ts is "soon", expected microseconds from 0',
        ),
        (json.dumps(changed("dur", -1)), "event 6 of the trace: dur is -1, expected microseconds"),
        (json.dumps(changed("dur", float("nan"))), "dur is NaN, expected microseconds from 0"),
        (json.dumps(changed("ts", 10**400)), "expected microseconds from 0"),
        (json.dumps(changed("frame", True)), "args.frame is true, expected a whole number from 0"),
        (json.dumps(changed("args", [])), "args.frame is missing, expected a whole number from 0"),
        (json.dumps(changed("tid", 2.5)), "tid is 2.5, expected a whole number from 0"),
        (json.dumps(changed("name", 7)), "event 6 of the trace: name is 7, expected a string"),
    ],
)
def test_a_damaged_or_foreign_trace_is_refused(
    report: Report, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    found, hint = refused(report, path)
    assert message in found
    assert found.startswith(str(path))
    assert hint == REMEDY


def test_a_trace_of_another_bundle_is_refused(report: Report, tmp_path: Path) -> None:
    path = save(tmp_path / "trace.json", trace({f"s{n}": 1.0 for n in range(9)}))
    message, hint = refused(report, path)
    assert "a trace of stages s0, s1, s2, s3, s4, s5 and 3 more, expected those of net" in message
    assert message.endswith("arm0, vta1, arm2")
    assert hint == "give the trace of a run of this bundle"


def test_a_trace_of_a_single_frame_is_refused(report: Report, tmp_path: Path) -> None:
    message, hint = refused(report, save(tmp_path / "trace.json", trace(TIMES, frames=1)))
    assert message.endswith("1 frames in the trace that all stages finished, expected 2 or more")
    assert hint == "record a longer run"


def test_two_traces_are_refused(report: Report, tmp_path: Path) -> None:
    one = save(tmp_path / "one.json", trace(TIMES))
    two = save(tmp_path / "two.json", trace(TIMES))
    with pytest.raises(BundleError) as error:
        with_measurement(report, one, two)
    assert str(error.value) == f"{one}: is a trace, as {two} is, expected statistics"
    assert error.value.hint == "give only one of them, or the statistics of the run, too"
