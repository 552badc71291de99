"""Fixtures for all tests: networks and data sets."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from needs import ARCHITECTURES, lacking
from numpy.typing import NDArray
from xdist.scheduler import LoadFileScheduling

from bench import models

# A shell starts background jobs with SIGINT ignored, and programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with SIGHUP.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine may delay any example. A test that hangs ends by pytest's own limit.
settings.register_profile("edgepipe", parent=settings(), deadline=None)
settings.load_profile("edgepipe")

# Marks of slow tests. Their files start first, the longest before the others, so that no worker
# runs one alone at the end.
_LONG = ("board", "models", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by file, files with slow tests first."""
    rank = {item.path: len(_LONG) for item in items}
    for item in items:
        for place, mark in enumerate(_LONG):
            if item.get_closest_marker(mark):
                rank[item.path] = min(rank[item.path], place)
    items.sort(key=lambda item: rank[item.path])


def pytest_collection_finish() -> None:
    """Look for cycles seldom, and not among what imports have made: a tenth of the tests' time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Distribute test files among workers.

    One gets all of ``board/`` and boots the board once, one all that needs the same Verilated
    accelerators.
    """
    return _ByFileOrFolder(config, log)


class _ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        for folder in ("tests/board/", "tests/vta_rtl/verilated/"):
            if nodeid.startswith(folder):
                return folder
        return super()._split_scope(nodeid)


@pytest.fixture(scope="session", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    """Return a board's architecture, whose programs run under qemu-user: once for each."""
    return str(request.param)


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Return the path of a network of the zoo by its name."""

    def find(name: str) -> Path:
        try:
            return models.model(name)
        except models.LackingError as error:
            lacking(error)

    return find


@pytest.fixture(scope="session")
def fashion_mnist() -> Callable[[str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return ("train" or "t10k") frames uint8[n, 28, 28, 1] and labels uint8[n]."""

    def read(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        try:
            return models.fashion_mnist(part)
        except models.LackingError as error:
            lacking(error)

    return read
