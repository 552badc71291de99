"""A chain of moves is one permutation of few axes, or none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from edgepipe.frontend.rewrites.composed_moves import axes_of, moved


def places(*shape: int) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def test_windows_of_a_picture_are_five_axes() -> None:
    order = places(8, 2, 7, 3, 5).transpose(1, 3, 0, 2, 4).reshape(6, 8, 7, 5)
    found = axes_of(order, order.size)
    assert found is not None
    assert found.sizes == (8, 2, 7, 3, 5)
    assert found.perm == (1, 3, 0, 2, 4)


def test_axes_that_stay_beside_each_other_are_one() -> None:
    order = places(4, 5, 6).transpose(1, 2, 0)
    found = axes_of(order, order.size)
    assert found is not None
    assert found.sizes == (4, 30)
    assert found.perm == (1, 0)


@pytest.mark.parametrize("shape", [(1,), (1, 1, 1), (2, 3, 4)])
def test_what_stays_where_it_is_has_one_axis(shape) -> None:
    found = axes_of(places(*shape), math.prod(shape))
    assert found is not None
    assert len(found.sizes) == 1


@pytest.mark.parametrize(
    ("order", "count"),
    [
        pytest.param([0, 1, 2], 6, id="a part"),
        pytest.param([1, 0, 2], 3, id="a choice that is no axis"),
        pytest.param([0, 1, 1, 2], 4, id="one element twice"),
        pytest.param([2, 1, 0], 3, id="backwards"),
        pytest.param([0, 2, 4, 1], 4, id="an element that is not there"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_what_is_no_permutation_of_axes_has_none(order, count) -> None:
    assert axes_of(np.array(order, np.int64), count) is None


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.permutations(range(len(sizes))))
    )
)
def test_any_permutation_of_axes_is_found(case) -> None:
    sizes, perm = case
    order = places(*sizes).transpose(perm)
    found = axes_of(order, order.size)
    assert found is not None
    assert len(found.sizes) <= max(1, sum(size > 1 for size in sizes))
    made = places(*found.sizes).transpose(found.perm)
    assert np.array_equal(made.reshape(-1), order.reshape(-1))


def test_moves_put_elements_where_the_operator_puts_them() -> None:
    order = places(2, 3, 4)
    turn = helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])
    assert np.array_equal(moved(turn, order, (4, 2, 3), None), order.transpose(2, 0, 1))
    flat = helper.make_node("Flatten", ["x"], ["y"])
    assert np.array_equal(moved(flat, order, (2, 12), None), order.reshape(2, 12))
    index = np.array([[2, 0], [-1, 1]])
    taken = helper.make_node("Gather", ["x", "index"], ["y"], axis=1)
    assert np.array_equal(moved(taken, order, (2, 2, 2, 4), index), order[:, index])


@pytest.mark.parametrize(
    ("node", "shape", "index"),
    [
        (helper.make_node("Relu", ["x"], ["y"]), (2, 3), None),
        (helper.make_node("Reshape", ["x", "shape"], ["y"]), (2, 4), None),
        (helper.make_node("Transpose", ["x"], ["y"]), (2, 3), None),
        (helper.make_node("Gather", ["x", "index"], ["y"]), (2, 3), None),
        (helper.make_node("Gather", ["x", "index"], ["y"]), (1, 3), np.array([2])),
        (helper.make_node("Gather", ["x", "index"], ["y"]), (1, 3), np.array([-3])),
    ],
)
def test_others_are_no_moves(node, shape, index) -> None:
    assert moved(node, places(2, 3), shape, index) is None
