"""Everything that is printed passes through one place per side, which escapes terminal controls."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from edgepipe.cli import console
from edgepipe.cli.console import ConsoleProgress, PrintableStream
from edgepipe.names import printable
from edgepipe.report.table import format_table

ROOT = Path(__file__).resolve().parent.parent
CONSOLE = ROOT / "cpp_runtime/src/base/console.cc"
EVIL = "a\x1b[2J\x9b1A\x7f\r\n\u202ecod.exe\u2066\u2028\x00z"
SAFE = r"a\u001b[2J\u009b1A\u007f\u000d\u000a\u202ecod.exe\u2066\u2028\u0000z"
PRINTS = re.compile(r"\b(?:f?printf|vf?printf|f?puts|putc|putchar|perror)\(|std::c(?:out|err)\b")


def test_controls_of_a_terminal_become_escapes() -> None:
    assert printable(EVIL) == SAFE
    assert json.loads(f'"{SAFE}"') == EVIL, "in JSON the escapes mean the characters"


def test_other_characters_are_unchanged() -> None:
    text = "a\tb Gr\u00fc\u00dfe \u72ac \U0001f415 \\ \u00e9"
    assert printable(text) == text


def test_every_control_and_every_mark_of_direction_is_escaped() -> None:
    marks = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B"}
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        controls = unicodedata.category(one) in ("Cc", "Zl", "Zp")
        if (controls or unicodedata.bidirectional(one) in marks) and one != "\t":
            assert printable(one) != one, hex(code)


def test_both_sides_escape_the_same_characters() -> None:
    text = CONSOLE.read_text(encoding="utf-8")
    found = re.findall(r"\{0x([0-9A-F]+), 0x([0-9A-F]+)\},", text)
    cpp = {code for first, last in found for code in range(int(first, 16), int(last, 16) + 1)}
    assert cpp == {code for code in range(0x3000) if printable(chr(code)) != chr(code)}


def test_cpp_programs_print_in_one_place() -> None:
    sources = [
        path
        for room in ("src", "programs", "rpc", "ffi")
        for path in (ROOT / "cpp_runtime" / room).rglob("*.cc")
        if path != CONSOLE
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if PRINTS.search(line) and not line.lstrip().startswith("//")
    ]
    assert len(sources) > 100
    assert not found, "print with the functions of base/console.h"


def test_a_stream_escapes_all_that_is_printed() -> None:
    target = io.StringIO()
    stream = PrintableStream.around(target)
    print("one", EVIL, "two", file=stream)
    stream.writelines(["\x1b", "c\n"])
    shown = SAFE.replace(r"\u000a", "\n")
    assert target.getvalue() == f"one {shown} two\n\\u001bc\n"
    assert PrintableStream.around(stream) is stream


def test_progress_draws_but_escapes_names() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    target = Terminal()
    progress = ConsoleProgress(target)
    progress.step("compiling \x1b[2J")
    progress.update(7, 7)
    progress.update(0, 0)
    progress.notice("note of \x9b2J")
    progress.finish()
    drawn = target.getvalue()
    assert set(re.findall("\x1b[^a-zA-Z]*.", drawn)) == {"\x1b[K"}
    assert r"compiling \u001b[2J ..." in drawn
    assert "... 7/7\r" in drawn
    assert "... 0\r" in drawn, "a total that is not known is not shown"
    assert r"note: note of \u009b2J" in drawn


def test_a_line_and_an_error_stay_on_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_line(EVIL)
    console.print_error(f"net: {EVIL}", "known: x\nhint: y")
    printed = capsys.readouterr()
    assert printed.out == SAFE + "\n"
    error, hint = printed.err.splitlines()
    assert error == f"edgepipe: error: net: {SAFE}".replace(r"\u000d\u000a", "; ")
    assert hint == "hint: known: x; hint: y"


def test_a_table_keeps_its_rows_and_columns() -> None:
    lines = format_table(["name", "n"], [[EVIL, "1"], ["b", "2"]]).splitlines()
    assert len(lines) == 4
    assert lines[2] == f"{SAFE}  1"
    assert lines[3] == "b".ljust(len(SAFE)) + "  2"
