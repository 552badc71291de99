"""Two benchmarks side by side."""

from __future__ import annotations

import dataclasses
import json

import pytest
from benchmark_records import benchmark, run

from edgepipe.benchmark.comparison import compare, to_json, to_text

FIRST = benchmark()
FASTER = benchmark(pipelined=run("pipelined", frames_per_second=180.0), contiguous_bytes=6 << 20)


def test_a_change_is_a_share_of_the_first() -> None:
    found = {(each.figure, each.unit): each for each in compare(FIRST, FASTER)}
    rate = found["pipelined", "frames/s"]
    assert (rate.first, rate.second) == (150, 180)
    assert rate.change_percent == pytest.approx(20)
    assert found["contiguous memory", "MiB"].change_percent == pytest.approx(100)
    assert found["gain", "x"].second == pytest.approx(1.8)


def test_there_is_no_change_from_nothing() -> None:
    found = {each.figure: each for each in compare(FASTER, FIRST)}
    dropped = found["pipelined, dropped"]
    assert (dropped.first, dropped.second, dropped.change_percent) == (0, 2, None)


def test_a_stage_that_only_one_has_is_listed() -> None:
    stages = FIRST.serial.statistics.stages[:2]
    shorter = {
        name: dataclasses.replace(
            getattr(FIRST, name),
            statistics=dataclasses.replace(getattr(FIRST, name).statistics, stages=stages),
        )
        for name in ("alone", "serial", "pipelined")
    }
    found = {each.figure: each for each in compare(dataclasses.replace(FIRST, **shorter), FIRST)}
    assert found["serial, arm2 p50"].first is None
    assert found["serial, arm2 p50"].second == 1
    assert found["serial, vta1 p50"].first == 1


def test_the_text_names_both_and_marks_what_is_missing() -> None:
    shown = to_text(("a.json", "b.json"), (FIRST, FASTER), compare(FIRST, FASTER))
    lines = shown.splitlines()
    assert lines[0] == "a: a.json: net for ultra96 on door, 50 frames, device uio"
    rows = [line.split() for line in lines]
    assert ["pipelined", "frames/s", "150.000", "180.000", "+20.0%"] in rows
    assert ["pipelined,", "dropped", "frames", "2.000", "0.000", "-100.0%"] in rows


def test_json_has_the_changes() -> None:
    found = {each["figure"]: each for each in json.loads(to_json(compare(FIRST, FASTER)))}
    assert found["pipelined"] == {
        "figure": "pipelined",
        "unit": "frames/s",
        "first": 150,
        "second": 180,
        "change_percent": pytest.approx(20),
    }
