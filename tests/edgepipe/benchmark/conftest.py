"""A bundle to measure, built once."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_bundles import branches, build


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with three stages: ARM, VTA, ARM."""
    return build(tmp_path_factory.mktemp("bench"), branches())
