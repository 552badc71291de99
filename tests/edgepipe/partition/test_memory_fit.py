"""Operators move to ARM if a frame does not fit into a board's contiguous memory."""

from __future__ import annotations

import pytest
from partition_records import conv, stem, table

from edgepipe import boards
from edgepipe.errors import LayerError
from edgepipe.partition.memory_fit import moved_to_fit
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import Segment, place, segment

BOARD = boards.load("ultra96")
# image -> stem -> wide, with large tensors -> deep, with many weights -> dense -> table
NETWORK = (
    stem("stem", "image", 16, 64),
    conv("wide", "stem", 16, 1, 64),
    conv("deep", "wide", 64, 1, 8),
    conv("dense", "deep", 64, 1, 1),
    table("table", "dense", 64, 1),
)
WEIGHTS = 64 * 64 * 9
CYCLES = dict.fromkeys((operator.name for operator in NETWORK), 1000.0)
BYTES = {"stem": 65536, "wide": 65536, "deep": 4096, "dense": 64, "table": 64}


def check(operator: Operator) -> None:
    if operator.kind == "table":
        raise LayerError("a table")


SEGMENTS: tuple[Segment, ...] = segment(place(NETWORK, check))


@pytest.mark.parametrize(
    ("excess_bytes", "kept", "moved"),
    [
        (0, (), []),
        (1, (), ["dense"]),  # each weight is multiplied once there, and 64 times in "deep"
        (WEIGHTS + 1, (), ["dense", "deep"]),
        (1, ("dense",), ["deep"]),
        # Weights alone are not enough: what has the largest results moves.
        (3 * WEIGHTS, (), ["wide"]),
        (3 * WEIGHTS, ("wide",), ["deep"]),
        (3 * WEIGHTS, ("wide", "deep", "dense"), []),
    ],
)
def test_what_moves_costs_the_least_time_for_the_memory_that_is_missing(
    excess_bytes: int, kept: tuple[str, ...], moved: list[str]
) -> None:
    found = moved_to_fit(SEGMENTS, CYCLES, BYTES, BOARD, excess_bytes, kept)
    assert list(found) == moved
    assert all("more contiguous memory than the board has" in why for why in found.values())
