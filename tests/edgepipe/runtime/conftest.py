"""The small network of the runtime's tests, made and compiled once for all of them."""

from __future__ import annotations

import pipeline_bundles as bundles
import pytest


@pytest.fixture(scope="session")
def network() -> bundles.Network:
    return bundles.make_network()


@pytest.fixture(scope="session")
def files(network: bundles.Network) -> bundles.Files:
    """Return its compiled stages; shared, so not to be changed."""
    return bundles.compile_files(network)
