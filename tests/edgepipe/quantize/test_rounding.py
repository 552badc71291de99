"""Rounding by what a layer reads: never worse than the nearest integers, and int8 in any case."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from edgepipe.quantize.rounding import reconstruct

weights = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (3, n), elements=st.floats(-126, 126)),
        arrays(np.float64, (7, n), elements=st.floats(-4, 4, width=16)),
    )
)


def nearest(scaled: np.ndarray) -> np.ndarray:
    return np.rint(scaled).astype(np.int64)


def errors(found: np.ndarray, scaled: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return each channel's mean squared error on ``samples: float64[count, n]``."""
    return np.square((found - scaled) @ samples.T).mean(axis=1)


def test_inputs_that_vary_apart_leave_every_weight_at_its_nearest_integer() -> None:
    scaled = np.array([[0.4, -1.6, 3.2], [0.0, 5.49, -5.51]])
    assert_array_equal(reconstruct(scaled, nearest(scaled), np.eye(3)), nearest(scaled))


def test_inputs_that_vary_together_share_what_rounding_removes() -> None:
    scaled = np.full((1, 4), 0.25)
    moments = np.ones((4, 4))
    assert reconstruct(scaled, nearest(scaled), moments).sum() == 1


def test_inputs_that_were_always_zero_decide_nothing() -> None:
    scaled = np.array([[0.4, 0.4, 7.4]])
    moments = np.diag([1.0, 1.0, 0.0])
    moments[0, 1] = moments[1, 0] = 1.0
    assert reconstruct(scaled, nearest(scaled), moments)[0, 2] == 7
    assert_array_equal(reconstruct(scaled, nearest(scaled), np.zeros((3, 3))), nearest(scaled))


def test_integers_stay_as_they_are() -> None:
    given_weights = np.array([[-128.0, 127.0, 3.0]])
    moments = np.array([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    assert_array_equal(reconstruct(given_weights, nearest(given_weights), moments), given_weights)


def test_blocks_of_columns_see_the_errors_of_those_before_them() -> None:
    scaled = np.full((1, 300), 0.25)
    assert reconstruct(scaled, nearest(scaled), np.ones((300, 300))).sum() == 75


@given(weights)
def test_no_channel_gets_worse_and_all_are_int8(pair: tuple[np.ndarray, np.ndarray]) -> None:
    scaled, samples = pair
    plain = nearest(scaled)
    found = reconstruct(scaled, plain, samples.T @ samples / len(samples))
    assert np.abs(found).max() <= 127
    slack = 1e-9 * (1 + np.square(samples).max())
    assert (errors(found, scaled, samples) <= errors(plain, scaled, samples) + slack).all()
