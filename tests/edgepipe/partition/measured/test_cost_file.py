"""Files of measured costs: what they hold is read again, and what does not belong there named."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepipe.errors import BoardError
from edgepipe.partition.measured.cost_file import CostFile, Entry, read, without_failures

KEY = "0123456789abcdef" * 4
GOOD = Entry(
    key=KEY, device="vta", threads=1, operators=("a", 'b "x"'), modelled_us=12.5, us=13.25,
    host="door", date="2026-11-25",
)  # fmt: skip
BAD = Entry(
    key=KEY[::-1], device="arm", threads=4, operators=("c",), modelled_us=3.0, failure="took 60 s",
    host="door", date="2026-11-25",
)  # fmt: skip
HINT = (
    "correct the file, or remove it and measure again; docs/reference/cost-file.md explains "
    "every key"
)


def text_of(tmp_path: Path) -> str:
    made = CostFile.open(tmp_path / "costs.toml", "ultra96", trial=False)
    made.add(GOOD)
    made.add(BAD)
    return made.path.read_text()


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    found = read(tmp_path / "costs.toml")
    assert (found.board, found.trial) == ("ultra96", False)
    assert found.entries == {KEY: GOOD, KEY[::-1]: BAD}
    assert found.to_toml() == text
    assert [path.name for path in tmp_path.iterdir()] == ["costs.toml"]


def test_failures_are_forgotten_when_they_are_to_be_tried_again(tmp_path: Path) -> None:
    text_of(tmp_path)
    assert without_failures(read(tmp_path / "costs.toml")).entries == {KEY: GOOD}


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("us = 13.25", "us = -1", 13, "us: found -1, expected a time in microseconds"),
        ("us = 13.25", 'us = "soon"', 13, "us: found a string 'soon', expected a float"),
        ("us = 13.25\n", "", 7, "found neither of us and failure, expected one of them"),
        ("us = 13.25", 'us = 1\nfailure = "x"', 14, "found both of us and failure, expected one"),
        ("modelled_us = 12.5", "modelled_us = nan", 12, "modelled_us: found nan, expected a time"),
        ('device = "vta"', 'device = "gpu"', 9, "device: found 'gpu', expected arm or vta"),
        ("threads = 1", "threads = 0", 10, "threads: found 0, expected 1 or more"),
        ("threads = 1\n", "threads = 1\nspeed = 3\n", 11, "unknown key 'speed'"),
        (f'key = "{KEY}"', 'key = "12"', 8, "key: found '12', expected 64 hexadecimal digits"),
        (f'key = "{KEY[::-1]}"', f'key = "{KEY}"', 17, "is there twice"),
        ("format = 1", "format = 2", 3, "format: found 2, expected 1"),
        ('board = "ultra96"', "board = 96", 4, "board: found an integer 96, expected a string"),
        ("us = 13.25", "us 13.25", 13, "not valid TOML"),
    ],
)
def test_a_bad_file_is_one_error_with_the_line(
    tmp_path: Path, before: str, after: str, line: int, message: str
) -> None:
    text = text_of(tmp_path)
    assert text.count(before) == 1 or before == "us = 13.25"
    path = tmp_path / "costs.toml"
    path.write_text(text.replace(f"\n{before}", f"\n{after}", 1))
    with pytest.raises(BoardError) as caught:
        read(path)
    error = str(caught.value)
    assert message in error
    assert "\n" not in error
    assert f"line {line}" in error
    hint = caught.value.hint
    if "format" in message:
        assert hint == "measure with this version of edgepipe"
    elif "unknown key" not in message:
        assert hint == HINT


def test_a_single_table_is_not_a_list_of_ranges(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    path.write_text('format = 1\nboard = "b"\ntrial = false\n[range]\nus = 1\n')
    with pytest.raises(BoardError, match="line 4: range: found a table, expected "):
        read(path)


def test_costs_of_another_board_or_kind_are_refused(tmp_path: Path) -> None:
    text_of(tmp_path)
    path = tmp_path / "costs.toml"
    with pytest.raises(BoardError, match="has the costs of board ultra96, not of kv260") as caught:
        CostFile.open(path, "kv260", trial=False)
    assert caught.value.hint == "name the board that was measured, or its file"
    with pytest.raises(BoardError, match="has times of a board, not of a trial") as caught:
        CostFile.open(path, "ultra96", trial=True)
    assert caught.value.hint == "choose another file"
    with pytest.raises(BoardError, match="its folder does not exist") as caught:
        CostFile.open(tmp_path / "none/costs.toml", "ultra96", trial=True)
    assert caught.value.hint == "create it, or choose another file"


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    text_of(tmp_path)
    made = read(tmp_path / "costs.toml")
    made.path = tmp_path / "gone/costs.toml"
    with pytest.raises(BoardError, match="cannot be written") as caught:
        made.add(GOOD)
    assert caught.value.hint == "free some space, fix the permissions, or choose another file"
