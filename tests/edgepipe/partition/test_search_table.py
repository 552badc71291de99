"""A table's stages are those that placement makes, and joining rows changes none of them."""

from __future__ import annotations

import pytest
from cost_tables import ULTRA96, chain, tables, with_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_records import conv, table

from edgepipe.errors import LayerError
from edgepipe.partition.borders import border_bytes
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, segment
from edgepipe.partition.search.judge import Judge, stages_of
from edgepipe.partition.search.split import every_placement
from edgepipe.partition.search.table import CostTable, contracted, cost_table


def placements(costs: CostTable) -> st.SearchStrategy[tuple[bool, ...]]:
    return st.tuples(
        *(st.booleans() if row.is_free else st.just(row.arm_ms is None) for row in costs.rows)
    )


def placed_rows(costs: CostTable, placement: tuple[bool, ...]) -> list[PlacedOperator]:
    """Return operators that stand for the rows of a table."""
    return [
        PlacedOperator(
            operator=Operator(
                name=row.name,
                kind="",
                layer=None,
                inputs=tuple(costs.rows[each].name for each in row.inputs),
                output=row.name,
                bindings=(),
            ),
            device="vta" if on_vta else "arm",
            reason="",
        )
        for row, on_vta in zip(costs.rows, placement, strict=True)
    ]


@given(data=st.data(), costs=tables(14))
@settings(max_examples=60, deadline=None)
def test_stages_are_those_of_placement(data: st.DataObject, costs: CostTable) -> None:
    placement = data.draw(placements(costs))
    segments = segment(placed_rows(costs, placement))
    found = stages_of(costs, placement)
    assert found.devices == tuple(part.device for part in segments)
    ms = {
        row.name: row.vta_ms if on_vta else row.arm_ms
        for row, on_vta in zip(costs.rows, placement, strict=True)
    }
    for part, alone_ms in zip(segments, found.alone_ms, strict=True):
        launch_ms = costs.launch_ms if part.device == "vta" else 0.0
        work = [ms[p.operator.name] or 0.0 for p in part.operators]
        assert alone_ms == pytest.approx(sum(work) + launch_ms)


@given(data=st.data(), costs=tables(14))
@settings(max_examples=60, deadline=None)
def test_caches_cost_by_the_tensors_at_the_borders_of_the_vta(
    data: st.DataObject, costs: CostTable
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 1 << 20), min_size=14, max_size=14))
    costs = with_bytes(costs, sizes, 333)  # about a microsecond for each KiB
    placement = data.draw(placements(costs))
    segments = segment(placed_rows(costs, placement))
    names = {row.name: size for row, size in zip(costs.rows, sizes, strict=False)}
    free = with_bytes(costs, sizes, 0)
    dear, cheap = (stages_of(each, placement).alone_ms for each in (costs, free))
    for n, borders in enumerate(border_bytes(segments, names)):
        expected = borders / 1024 * 1e-3 if segments[n].device == "vta" else 0.0
        assert dear[n] - cheap[n] == pytest.approx(expected, abs=1e-9)


@given(data=st.data(), costs=tables(14))
@settings(max_examples=60, deadline=None)
def test_joined_rows_give_the_same_stages(data: st.DataObject, costs: CostTable) -> None:
    placement = data.draw(placements(costs))
    small = contracted(costs)
    assert small.expand(small.contract(placement)) == placement
    found = stages_of(small.table, small.contract(placement))
    whole = stages_of(costs, placement)
    assert (found.devices, found.reads) == (whole.devices, whole.reads)
    assert found.times_ms == pytest.approx(whole.times_ms)


@given(costs=tables(7))
@settings(max_examples=25, deadline=None)
def test_no_interval_is_below_the_floor(costs: CostTable) -> None:
    judge = Judge(costs)
    for placement in list(every_placement(costs.rows))[:8]:
        estimate = judge.estimate(placement)
        for slots in (1, estimate.slots):
            assert judge.interval_ms(estimate, slots) >= estimate.floor_ms
        assert judge.interval_ms(estimate, 1) == pytest.approx(estimate.latency_ms)


def test_costs_follow_from_operators_and_what_is_settled() -> None:
    network = (
        conv("a", "image", 16, 1),
        table("t", "a", 16, 100),
        conv("b", "t", 16, 1),
        conv("c", "b", 16, 1),
    )

    def check(operator: Operator) -> None:
        if operator.kind == "table":
            raise LayerError("a table")

    cycles = {"a": 333_000, "b": 666_000, "c": 333_000}
    found = cost_table(network, check, cycles, ULTRA96, {"b": "arm", "c": "vta"})
    assert [row.vta_ms for row in found.rows] == [1.0, None, None, 1.0]
    assert [row.arm_ms is None for row in found.rows] == [False, False, False, True]
    assert [row.inputs for row in found.rows] == [(), (0,), (1,), (2,)]
    assert [len(group) for group in contracted(found).groups] == [1, 2, 1]
    assert {size for row in found.rows for size in (*row.input_bytes, row.result_bytes)} == {0}
    sizes = {"a": 1, "t": 20, "b": 300, "c": 4000}
    found = cost_table(network, check, cycles, ULTRA96, {"b": "arm"}, tensor_bytes=sizes)
    assert [row.input_bytes for row in found.rows] == [(), (1,), (20,), (300,)]
    assert [row.result_bytes for row in found.rows] == [0, 0, 0, 4000]
    assert [row.input_bytes for row in contracted(found).table.rows] == [(), (1,), (300,)]


def test_a_chain_on_one_device_is_one_row() -> None:
    costs = chain((1, None), (2, None), (3, 4), (5, None), (6, None))
    small = contracted(costs)
    assert [row.arm_ms for row in small.table.rows] == [3, 3, 11]
    assert small.groups == ((0, 1), (2,), (3, 4))
