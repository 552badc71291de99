"""The file of measured costs: TOML with one table for each range, written after every measurement.

A range that failed is remembered with its reason, so that it is not tried again and again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgepipe import exports, schema, scratch
from edgepipe.errors import BoardError, advise
from edgepipe.partition.rules import toml_lines

FORMAT = 1

_HEADER = """\
# Measured costs of edgepipe, by `edgepipe measure --network`: what ranges of operators take.
# Remove a [[range]] to measure it again. us and modelled_us are for a frame, in microseconds.
"""
_KEY = re.compile("[0-9a-f]{64}")
_MOST_US = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of a range: the time ``us`` for a frame, or the ``failure`` that it had.

    ``key`` is that of ``OperatorRange.key``. ``modelled_us`` is the model's time for the same code.
    ``operators`` are the names in the network that was measured, ``host`` the machine and ``date``
    the day on which this was done.
    """

    key: str
    device: str
    threads: int
    operators: tuple[str, ...]
    modelled_us: float
    host: str
    date: str
    us: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The keys of the file outside its ranges."""

    format: int
    board: str
    trial: bool


@dataclass(slots=True)
class CostFile:
    """The costs of ``board``, by the keys of their ranges; ``add`` writes the file at once.

    In a ``trial`` the accelerator's times are the model's. Any thread may add entries.
    """

    path: Path
    board: str
    trial: bool
    entries: dict[str, Entry] = field(default_factory=dict)
    _adding: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, path: Path, board: str, *, trial: bool) -> CostFile:
        """Return what ``path`` holds, or an empty file if there is none yet.

        Raises BoardError for a file that is damaged, or that belongs to another board.
        """
        if not path.exists():
            if not path.parent.is_dir():
                raise BoardError(
                    f"{path}: its folder does not exist",
                    hint="create it, or choose another file",
                    option="output",
                    value="FILE",
                )
            return cls(path, board, trial)
        found = read(path)
        require_board(found, board)
        if found.trial != trial:
            kinds = ("of a board", "of a trial")
            raise BoardError(
                f"{path}: has times {kinds[found.trial]}, not {kinds[trial]}",
                hint="choose another file",
                option="output",
                value="FILE",
            )
        return found

    def add(self, entry: Entry) -> None:
        """Add an entry, or put it in place of an earlier one of its range.

        Raises BoardError if the file cannot be written; then it is what it was.
        """
        with self._adding:
            self.entries[entry.key] = entry
            waiting = scratch.name_beside(self.path, ".edgepipe.")
            try:
                with scratch.removed_if_killed(waiting):
                    waiting.write_text(self.to_toml(), encoding="utf-8")
                    waiting.replace(self.path)
            except OSError as cause:
                raise BoardError(
                    f"{self.path}: cannot be written ({cause.strerror})",
                    hint="free some space, fix the permissions, or choose another file",
                    option="output",
                    value="FILE",
                ) from cause
            finally:
                waiting.unlink(missing_ok=True)

    def to_toml(self) -> str:
        """Return the text of the file."""
        lines = [
            f"{_HEADER}format = {FORMAT}",
            f"board = {_string(self.board)}",
            f"trial = {str(self.trial).lower()}",
        ]
        for entry in self.entries.values():
            lines += ["", "[[range]]", *_lines(entry)]
        return "\n".join(lines) + "\n"


def require_board(found: CostFile, board: str) -> None:
    """Raise BoardError unless the costs are those of the board with that name."""
    if found.board != board:
        raise BoardError(
            f"{found.path}: has the costs of board {found.board}, not of {board}",
            hint="name the board that was measured, or its file",
            option="board",
            value="BOARD",
        )


def read(path: Path) -> CostFile:
    """Read a file of measured costs.

    Raises BoardError for what does not belong there, with its line.
    """
    with advise("correct the file, or remove it and measure again; "
                "docs/reference/cost-file.md explains every key"):  # fmt: skip
        return _read(path)


def _read(path: Path) -> CostFile:
    document = schema.read_toml(path, BoardError)
    text = path.read_text(encoding="utf-8")
    top = toml_lines.keys(text)
    if document.get("format") != FORMAT:
        raise BoardError(
            f"{toml_lines.at(path, top.get('format', 0))}: format: found "
            f"{document.get('format', 'none')}, expected {FORMAT}",
            hint="measure with this version of edgepipe",
        )
    ranges = document.pop("range", [])
    if not isinstance(ranges, list):
        raise BoardError(
            f"{toml_lines.at(path, toml_lines.table(text, 'range'))}: range: found a table, "
            "expected [[range]]"
        )
    kinds = {"format": int, "board": str, "trial": bool}
    wrong = next((key for key in document if type(document[key]) is not kinds.get(key)), "")
    head = schema.from_table(Head, document, toml_lines.at(path, top.get(wrong, 0)), BoardError)
    headers = toml_lines.tables(text, "range")
    entries: dict[str, Entry] = {}
    for number, table in enumerate(ranges):
        line = headers[number] if len(headers) == len(ranges) else 0
        entry = _entry(table, path, line, toml_lines.keys(text, line) if line else {})
        if entry.key in entries:
            raise BoardError(f"{toml_lines.at(path, line)}: range {entry.key[:12]}: is there twice")
        entries[entry.key] = entry
    return CostFile(path, head.board, head.trial, entries)


def _entry(table: Any, path: Path, line: int, keys: Mapping[str, int]) -> Entry:
    """Return an entry that the table under the header in ``line`` has."""

    def at(key: str) -> str:
        return f"{toml_lines.at(path, keys.get(key, line))}: range"

    if not isinstance(table, dict):
        raise BoardError(f"{at('')}: found {table!r}, expected a table")
    wrong = next((key for key in table if not _fits(key, table[key])), "")
    entry = schema.from_table(Entry, table, at(wrong), BoardError)
    if not _KEY.fullmatch(entry.key):
        raise BoardError(f"{at('key')}: key: found {entry.key!r}, expected 64 hexadecimal digits")
    if entry.device not in ("arm", "vta"):
        raise BoardError(f"{at('device')}: device: found {entry.device!r}, expected arm or vta")
    if entry.threads < 1:
        raise BoardError(f"{at('threads')}: threads: found {entry.threads}, expected 1 or more")
    for key in ("us", "modelled_us"):
        value = getattr(entry, key)
        if not 0 <= value <= _MOST_US or (key == "us" and "us" in table and not value):
            raise BoardError(f"{at(key)}: {key}: found {value:g}, expected a time in microseconds")
    if ("us" in table) == ("failure" in table):
        found = "both" if "us" in table else "neither"
        raise BoardError(f"{at('failure')}: found {found} of us and failure, expected one of them")
    return entry


def _fits(key: str, value: object) -> bool:
    """Return whether a key of a range is known and its value has the right type."""
    numbers = ("modelled_us", "us")
    if key in numbers:
        return type(value) in (int, float)
    if key == "threads":
        return type(value) is int
    if key == "operators":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return key in ("key", "device", "host", "date", "failure") and isinstance(value, str)


def _lines(entry: Entry) -> Iterable[str]:
    yield f"key = {_string(entry.key)}"
    yield f"device = {_string(entry.device)}"
    yield f"threads = {entry.threads}"
    yield f"operators = [{', '.join(map(_string, entry.operators))}]"
    yield f"modelled_us = {entry.modelled_us!r}"
    if entry.failure:
        yield f"failure = {_string(entry.failure)}"
    else:
        yield f"us = {entry.us!r}"
    yield f"host = {_string(entry.host)}"
    yield f"date = {_string(entry.date)}"


def without_failures(found: CostFile) -> CostFile:
    """Return the costs without the ranges that failed, so that these are tried again."""
    kept = {key: entry for key, entry in found.entries.items() if not entry.failure}
    return replace(found, entries=kept, _adding=threading.Lock())


def _string(text: str) -> str:
    return exports.toml_string(text, BoardError)
