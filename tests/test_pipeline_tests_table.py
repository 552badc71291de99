"""The table in docs/reference/pipeline-tests.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
NAMES = re.findall(
    r"`(test_\w+|\w+Test\.\w+)`", (TESTS.parent / "docs/reference/pipeline-tests.md").read_text()
)


def test_every_test_in_the_table_exists():
    python = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    cpp = "\n".join(
        path.read_text() for path in (TESTS.parent / "cpp_runtime" / "tests").rglob("*_test.cc")
    )
    found = set(re.findall(r"^def (test_\w+)\(", python, re.MULTILINE)) | {
        f"{suite}.{name}" for suite, name in re.findall(r"^TEST\w*\((\w+),\s*(\w+)\)", cpp, re.M)
    }
    assert NAMES
    assert [name for name in NAMES if name not in found] == []
