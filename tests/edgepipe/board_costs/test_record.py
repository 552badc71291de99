"""What an interrupted measurement leaves, and when the next one uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgepipe.board_costs.record import Record, identity, record_path
from edgepipe.errors import BoardError


def test_times_are_there_for_the_next_measurement_of_the_same_board(tmp_path: Path) -> None:
    path = record_path(tmp_path / "board.toml")
    assert path.name == "board.toml.measured"
    Record.open(path, "x").add("loops", 5.5)
    assert Record.open(path, "x").times_us == {"loops": 5.5}
    assert Record.open(path, "y").times_us == {}


@pytest.mark.parametrize("content", ["", "[]", "{", '{"identity": "x"}', "\xff"])
def test_a_damaged_file_counts_for_nothing(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.measured"
    path.write_text(content, encoding="latin-1")
    assert Record.open(path, "x").times_us == {}


def test_times_that_are_none_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.measured"
    path.write_text(json.dumps({"identity": "x", "times_us": {"a": 0, "b": "1", "c": 2}}))
    assert Record.open(path, "x").times_us == {"c": 2.0}


def test_the_identity_is_that_of_host_device_processor_and_programs() -> None:
    known = identity("h", "auto", "aarch64", {"a": b"1"})
    assert known == identity("h", "auto", "aarch64", {"a": b"1"})
    others = [
        identity("g", "auto", "aarch64", {"a": b"1"}),
        identity("h", "timed", "aarch64", {"a": b"1"}),
        identity("h", "auto", "armv7l", {"a": b"1"}),
        identity("h", "auto", "aarch64", {"a": b"2"}),
    ]
    assert len({known, *others}) == 5


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    record = Record(tmp_path / "missing" / "a.measured", "x")
    with pytest.raises(BoardError, match=r"a\.measured: cannot be written") as caught:
        record.add("loops", 1.0)
    assert caught.value.hint == "fix the permissions, or choose an output in another folder"
    assert caught.value.option == "output"


def test_a_record_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="cannot be read"):
        Record.open(tmp_path, "x")
