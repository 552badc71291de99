"""Cycles of layers and errors of the model, from the cycles in which layers end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rtl_layers import LayerCycles, layers_between, table

NAMES = ("stem", "pool", "head")


def errors(found: Sequence[int], modelled: Sequence[int]) -> list[float]:
    layers = layers_between(NAMES[: len(found)], found, modelled)
    return [layer.error_percent for layer in layers]


def test_an_error_is_a_share_of_the_cycles_between_two_ends() -> None:
    np.testing.assert_allclose(errors([10_000, 30_000], [10_500, 29_500]), [5.0, -5.0])


def test_layers_of_few_cycles_are_joined_with_the_next() -> None:
    layers = layers_between(NAMES, [10_000, 10_100, 30_000], [10_000, 19_000, 30_000])
    assert [layer.name for layer in layers] == ["stem", "pool to head"]
    assert [(layer.found, layer.modelled) for layer in layers] == [(10_000, 10_000), (20_000,) * 2]


def test_a_last_layer_of_few_cycles_is_joined_with_the_one_before() -> None:
    found = errors([10_000, 30_000, 30_100], [10_000, 31_000, 32_110])
    np.testing.assert_allclose(found, [0.0, 10.0])


def test_layers_are_a_table_and_figures() -> None:
    layer = LayerCycles(layers=("conv1",), found=8_000, modelled=7_600)
    assert table([layer]).splitlines()[-1].split() == ["conv1", "8000", "7600", "-5.0"]
    figure = layer.figure("net on stock")
    assert (figure.name, figure.value) == ("net on stock: conv1: cycles on RTL", 8_000)
    assert figure.source == "modelled: 7600 (-5.0 %)"
