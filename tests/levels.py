"""Which cases of a test `make test` runs, and which it leaves to `make test-networks`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def long(*values: object) -> object:
    """Return the parameters of a test that only `make test-networks` runs."""
    return pytest.param(*values, marks=pytest.mark.networks)


def every(number: int, cases: Iterable[object]) -> list[object]:
    """Return cases of which `make test` runs the first of each ``number``.

    A case of several parameters is a tuple.
    """
    left = ((case if isinstance(case, tuple) else (case,)) for case in cases)
    return [
        pytest.param(*values) if n % number == 0 else long(*values) for n, values in enumerate(left)
    ]
