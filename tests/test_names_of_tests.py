"""Every test module and every module beside tests has a name of its own.

pytest imports them by that name alone, so a second one of the same name would not run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def test_no_two_modules_of_the_tests_have_the_same_name() -> None:
    names = Counter(
        path.stem
        for path in TESTS.rglob("*.py")
        if path.stem != "conftest" and not (path.parent / "__init__.py").exists()
    )
    assert len(names) > 250, "the walk no longer finds the tests"
    assert [name for name, count in names.items() if count > 1] == []
