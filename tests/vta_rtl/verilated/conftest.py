"""The Verilated stock accelerator of each encoding revision, once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from needs import BUILD
from random_programs.machines import MACHINES

from vta_rtl.verilated.device import VerilatedDevice


@pytest.fixture(scope="session", params=["0.0.1", "0.0.2"])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def device(revision: str) -> Iterator[VerilatedDevice]:
    with MACHINES[f"stock-{revision}"].open(BUILD / "vta_rtl") as opened:
        yield opened
