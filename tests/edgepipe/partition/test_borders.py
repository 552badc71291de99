"""The tensors at the borders of stages."""

from __future__ import annotations

from partition_records import conv, product, table

from edgepipe.partition.borders import border_bytes
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, Segment


def stage(device: str, *operators: Operator) -> Segment:
    placed = (PlacedOperator(operator=each, device=device, reason="") for each in operators)
    return Segment(device=device, operators=tuple(placed))


def test_each_tensor_counts_once_where_it_is_read_and_where_it_is_made() -> None:
    segments = (
        stage("arm", table("a", "frame", 16, 10)),
        stage("vta", conv("b", "a", 16, 1), conv("c", "a", 16, 1), conv("d", "c", 16, 1)),
        stage("arm", product("e", "b", "d", 16, 10)),
        stage("vta", product("f", "e", "b", 16, 10)),
    )
    sizes = {"frame": 1, "a": 20, "b": 300, "c": 4_000, "d": 50_000, "e": 600_000, "f": 7_000_000}
    assert border_bytes(segments, sizes) == (21, 50_320, 650_300, 7_600_300)


def test_a_tensor_that_is_read_inside_and_outside_is_passed_on() -> None:
    segments = (stage("vta", conv("a", "x", 16, 1), conv("b", "a", 16, 1)), stage("arm"))
    assert border_bytes(segments, {"a": 5, "b": 7}) == (7, 0)
    both = (segments[0], stage("arm", table("t", "a", 16, 10)))
    assert border_bytes(both, {"a": 5, "b": 7}) == (12, 5)
