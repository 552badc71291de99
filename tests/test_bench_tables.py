"""Bends of tables are counted as a lower bound: what bends so often never counts more."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.table_bends import fewest_bends, least_cycles
from vta_stages.timing.cost_model import CostModel

X = np.arange(-128, 128)


def as_table(values: np.ndarray) -> np.ndarray:
    return np.clip(np.floor(values), -128, 127).astype(np.int8)


@given(slope=st.floats(-4, 4), offset=st.floats(-300, 300))
def test_a_straight_line_has_no_bend_wherever_it_is_clipped(slope: float, offset: float) -> None:
    assert fewest_bends(as_table(slope * X + offset)) == 0


@given(
    slope=st.floats(-1, 1),
    bends=st.lists(st.tuples(st.integers(-128, 127), st.floats(-1, 1)), max_size=5),
)
def test_a_line_with_bends_has_at_most_these(slope: float, bends: list[tuple[int, float]]) -> None:
    values = slope * X + sum(bend * np.maximum(X - at, 0) for at, bend in bends)
    assert fewest_bends(as_table(values)) <= len(bends)


def test_each_jump_needs_a_bend() -> None:
    assert fewest_bends(as_table(np.where(X < 0, -50, 50))) >= 1
    assert fewest_bends(as_table(np.where(abs(X) < 40, 50, -50))) >= 2


def test_a_bend_costs_three_products_and_two_operations() -> None:
    cost = CostModel(gemm_step_cycles=1, alu_step_cycles=2)
    assert least_cycles(1, cost) - least_cycles(0, cost) == 3 + 2 * 2
