"""Bundles with few and with many stages, built once."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_networks
from report_bundles import branches, build

from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.reading import read_report


@pytest.fixture(scope="session")
def few_stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with a fused pooling, a concatenation and two outputs: ARM, VTA, ARM."""
    return build(tmp_path_factory.mktemp("few"), branches())


@pytest.fixture(scope="session")
def many_stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with more ARM stages than the board has cores for."""
    on_vta = dict.fromkeys(("reduce_relu", "gate", "added", "attend", "result.int8"), "vta")
    model = small_networks.squeeze_excite()
    return build(tmp_path_factory.mktemp("many"), model, placement=on_vta)


@pytest.fixture(scope="session")
def report(few_stages: Path) -> Report:
    """Return the report of the bundle with few stages."""
    return read_report(few_stages)
