"""Benchmarks as JSON: written, read, and files that are something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmark_records import benchmark

from edgepipe.benchmark import record
from edgepipe.errors import BundleError

REMEDY = "give a file that `edgepipe bench` wrote"


def written(folder: Path, text: str) -> Path:
    path = folder / "bench.json"
    path.write_text(text)
    return path


def test_a_benchmark_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = benchmark()
    assert record.read(written(tmp_path, record.to_json(made))) == made


def test_gain_and_bound_follow_from_rates_and_stage_times() -> None:
    assert benchmark().gain == 1.5
    assert benchmark().bound == pytest.approx((2 + 6 + 2) / 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON, expected a benchmark"),
        ("\x00", "not JSON, expected a benchmark"),
        ("[" * 100_000, "not JSON, expected a benchmark"),
        ("[1]", "found other JSON, expected a benchmark"),
        ('{"statistics": {}}', "found other JSON, expected a benchmark"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BundleError, match=message) as error:
        record.read(written(tmp_path, text))
    assert error.value.hint == REMEDY


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"none\.json: cannot be read") as error:
        record.read(tmp_path / "none.json")
    assert error.value.hint == "give a file that `edgepipe bench` wrote"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(BundleError, match="1099511627776 bytes, expected at most") as error:
        record.read(path)
    assert error.value.hint == REMEDY


def test_another_format_is_refused(tmp_path: Path) -> None:
    text = record.to_json(benchmark(format=2))
    with pytest.raises(BundleError, match="a benchmark of format 2, expected 1") as error:
        record.read(written(tmp_path, text))
    hint = "measure again, or read it with the version of edgepipe that wrote it"
    assert error.value.hint == hint


def damaged(change: Callable[[dict[str, Any]], object]) -> str:
    found = json.loads(record.to_json(benchmark()))
    change(found)
    return json.dumps(found)


def statistics_of(found: dict[str, Any]) -> dict[str, Any]:
    statistics: dict[str, Any] = found["pipelined"]["statistics"]
    return statistics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (damaged(lambda found: found.pop("frames")), "key 'frames' is missing"),
        (damaged(lambda found: found.update(colour=1)), "unknown key 'colour'"),
        (damaged(lambda found: found.update(frames="many")), "frames: found a string 'many'"),
        (damaged(lambda found: found["serial"].update(statistics=3)), "expected a table"),
        (
            damaged(lambda found: statistics_of(found).update(frames_per_second=float("nan"))),
            "a number of the benchmark is none",
        ),
        (
            damaged(lambda found: statistics_of(found).update(frames_per_second=0)),
            "statistics of a run without frames",
        ),
        (
            damaged(lambda found: statistics_of(found).update(delivered=0)),
            "statistics of a run without frames",
        ),
        (
            damaged(lambda found: statistics_of(found).update(stages=[])),
            "statistics of a run without frames",
        ),
        (
            damaged(lambda found: statistics_of(found)["stages"].pop()),
            "its runs have different stages",
        ),
        (damaged(lambda found: found["serial"].update(mode="x")), "a run 'x', expected 'serial'"),
        (
            damaged(lambda found: found["prediction"].update(interval_ms=0)),
            "a predicted time is not above 0",
        ),
    ],
)  # fmt: skip
def test_a_damaged_benchmark_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BundleError, match=message) as error:
        record.read(written(tmp_path, text))
    assert error.value.hint == REMEDY
