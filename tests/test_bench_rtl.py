"""Errors of modelled layers, from the cycles in which they end."""

from __future__ import annotations

import numpy as np

from bench.rtl import errors_of_layers


def test_an_error_is_a_share_of_the_cycles_between_two_ends() -> None:
    errors = errors_of_layers([10_000, 30_000], [10_500, 29_500])
    np.testing.assert_allclose(errors, [5.0, -5.0])


def test_layers_of_few_cycles_are_joined_with_the_next() -> None:
    errors = errors_of_layers([10_000, 10_100, 30_000], [10_000, 19_000, 30_000])
    np.testing.assert_allclose(errors, [0.0, 0.0])


def test_a_last_layer_of_few_cycles_is_joined_with_the_one_before() -> None:
    errors = errors_of_layers([10_000, 30_000, 30_100], [10_000, 31_000, 32_110])
    np.testing.assert_allclose(errors, [0.0, 10.0])
