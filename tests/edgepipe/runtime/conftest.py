"""The small network of the runtime's tests, created and compiled once."""

from __future__ import annotations

import pipeline_bundles as bundles
import pytest


@pytest.fixture(scope="session")
def network() -> bundles.Network:
    return bundles.make_network()


@pytest.fixture(scope="session")
def files(network: bundles.Network) -> bundles.Files:
    """Return its compiled stages; shared, so do not modify them."""
    return bundles.compile_files(network)
