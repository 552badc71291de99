"""Reports as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from report_bundles import statistics

from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.text import to_json, to_text


def test_the_text_has_all_parts(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(statistics({"arm0": 2.0, "vta1": 6.0, "arm2": 1.0})))
    text = to_text(with_measurement(report, path), compare(report, report))
    assert text.startswith("net for ultra96: VTA 1x16_i8w8a32_15_15_18_17, 333 MHz\n")
    assert "frames per second), " in text
    assert "fits the accelerator" in text
    (header,) = (line for line in text.splitlines() if line.startswith("operator "))
    assert header.split()[:5] == ["operator", "kind", "can", "should", "stage"]
    assert "camera bytes become int8 through a table" in text
    assert "with body_relu" in text
    assert "contiguous memory: " in text
    assert "other cuts, the best " in text
    assert "measured (run.json): 49.50 frames per second" in text
    assert "compared with another bundle:" in text
    assert text.endswith("\n")


def test_parts_that_were_not_asked_for_are_left_out(report: Report) -> None:
    text = to_text(report)
    assert "measured (" not in text
    assert "compared with" not in text


def test_names_cannot_control_a_terminal(report: Report) -> None:
    evil = "x\x1b]0;owned\x07\nfake: line"
    operators = tuple(
        dataclasses.replace(operator, name=evil + operator.name, reason=evil)
        for operator in report.operators
    )
    text = to_text(dataclasses.replace(report, name=evil, operators=operators))
    assert "\x1b" not in text
    assert "\nfake" not in text


def test_json_is_the_report_with_what_follows_from_it(report: Report) -> None:
    found = json.loads(to_json(report, compare(report, report)))
    assert found["name"] == "net"
    assert [operator["name"] for operator in found["operators"]] == [
        operator.name for operator in report.operators
    ]
    assert found["prediction"]["frames_per_second"] == report.prediction.frames_per_second
    assert found["memory"]["used_bytes"] == report.memory.used_bytes
    assert found["what_if"]["best"] in [cut.operator for cut in report.what_if.cuts]
    assert found["comparison"]["figures"][0]["change"] == 0
    assert found["measurement"] is None
    assert json.loads(to_json(report))["comparison"] is None
