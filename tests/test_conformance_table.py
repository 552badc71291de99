"""The table in docs/guides/conformance.md names the implementations that the programs run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from needs import built

GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "conformance.md"
PROGRAMS = ("edgepipe-tests", "edgepipe-board-conformance", "edgepipe-rtl-conformance")


def documented(program: str) -> set[tuple[str, str]]:
    """Return (suite, implementation) for each that the table gives to a program."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| `([\w-]+)`", GUIDE.read_text(), re.MULTILINE)
    return {
        (suite, name)
        for suite, names, where in rows
        if where == program
        for name in re.findall(r"`(\w+)`", names)
    }


def listed(program: str) -> set[tuple[str, str]]:
    """Return the same as the program lists it."""
    command = [built(program), "--gtest_list_tests", "--gtest_filter=*Conformance*"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = set()
    suite = ""
    for line in lines:
        if heading := re.fullmatch(r"\w+/(\w+)\.", line):
            suite = heading[1]
        elif test := re.match(r"  \w+/(\w+)", line):
            found.add((suite, test[1]))
    return found


def test_the_guide_lists_the_implementations_that_run() -> None:
    for program in PROGRAMS:
        assert documented(program) == listed(program)
        assert documented(program)
