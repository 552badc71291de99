"""The Verilated stock accelerator of each encoding revision, once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import BUILD
from random_programs.machines import MACHINES

from vta_rtl.verilated.device import VerilatedDevice
from vta_stages.accelerator import REVISIONS


@pytest.fixture(scope="session", params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def libraries() -> dict[str, Path]:
    """Return the library of each revision."""
    return {name: MACHINES[f"stock-{name}"].library(BUILD / "vta_rtl") for name in REVISIONS}


@pytest.fixture(scope="session")
def device(revision: str) -> Iterator[VerilatedDevice]:
    with MACHINES[f"stock-{revision}"].open(BUILD / "vta_rtl") as opened:
        yield opened
