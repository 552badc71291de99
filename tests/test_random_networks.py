"""Random and damaged networks build exactly or are refused in one line.

A sample; ``make fuzz-networks`` builds 2,000.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from exported_networks.exact import outcome
from exported_networks.grammar import SIZE, is_damaged, network
from levels import every


@pytest.mark.parametrize("seed", every(4, [0, 3, *range(31, 45)]))
def test_a_random_network_is_built_exactly_or_refused(seed: int, tmp_path: Path) -> None:
    found = outcome(network(seed), tmp_path, SIZE)
    assert found == "exact" or is_damaged(seed)
