"""Frames in flight for a camera: the fewest that keep the rate, or for the newest results."""

from __future__ import annotations

import pytest

from edgepipe.partition.search.automatic import live_slots

INTERVALS = {1: 30.0, 2: 16.0, 3: 10.1, 4: 10.0, 5: 10.0}
"""Time between frames in ms, with so many frames in flight."""


@pytest.mark.parametrize("objective", ["", "throughput", "energy-proxy"])
def test_the_fewest_within_two_percent_of_the_rate(objective) -> None:
    assert live_slots(INTERVALS.__getitem__, 5, objective) == 3


@pytest.mark.parametrize(("third", "expected"), [(10.2, 3), (10.21, 4)])
def test_two_percent_is_the_limit(third, expected) -> None:
    intervals = {**INTERVALS, 3: third}
    assert live_slots(intervals.__getitem__, 5, "throughput") == expected


def test_no_more_than_the_memory_allows() -> None:
    assert live_slots(INTERVALS.__getitem__, 2, "throughput") == 2
    assert live_slots(INTERVALS.__getitem__, 1, "throughput") == 1


def test_for_latency_what_is_shown_is_newest() -> None:
    """Half an interval until a picture shows an event, and its way through the pipeline."""
    assert live_slots(INTERVALS.__getitem__, 5, "latency") == 3  # 3.5 * 10.1 is less than 1.5 * 30
    assert live_slots({1: 20.0, 2: 16.0, 3: 15.0}.__getitem__, 3, "latency") == 1
