"""The layer shapes of VTA's old test suite, with full-range data, against the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import (
    HALF_BUFFERS,
    ONE_BY_THIRTYTWO,
    QUARTERS,
    RECTANGULAR,
    SECOND_REVISION,
    THIRTYTWO_BY_SIXTEEN,
)
from compiler_support import STOCK, check_program, conv, tensor
from layer_shapes import SHAPES, layer

from vta_stages.accelerator import Accelerator

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_the_old_test_suite(shape: str) -> None:
    check_program(STOCK, [layer(shape)], ["x"], ["y"])


@pytest.mark.parametrize("name", ["C2", "C8", "C11"])
@pytest.mark.parametrize(
    "accelerator",
    [SECOND_REVISION, ONE_BY_THIRTYTWO, HALF_BUFFERS],
    ids=["0.0.2", "1x32", "half the buffers"],
)
def test_other_accelerators(accelerator: Accelerator, name: str) -> None:
    check_program(accelerator, [layer(name)], ["x"], ["y"])


@pytest.mark.parametrize(
    ("accelerator", "name"),
    [(THIRTYTWO_BY_SIXTEEN, "C2"), (QUARTERS, "C8"), (RECTANGULAR, "C11")],
    ids=["1x32x16", "1x16x4", "1x8x4"],
)
def test_rectangular_blocks(accelerator: Accelerator, name: str) -> None:
    check_program(accelerator, [layer(name)], ["x"], ["y"])


# name: tensor (channels, height, width), output channels, kernel, options
UNUSUAL = {
    "a plane beyond 16 bits of stride": ((20, 300, 290), 20, 3, {"pad": 1}),
    "a picture too wide for one tile": ((16, 3, 3000), 16, 3, {"pad": 1, "leaky": True}),
    "a tall picture": ((16, 3000, 2), 16, 3, {"pad": 1}),
    "a large kernel": ((3, 64, 64), 8, 15, {"pad": 7}),
    "global pooling": ((1024, 7, 7), 1024, 7, {"groups": 1024}),
    "dense on a picture": ((64, 7, 7), 100, 7, {}),
    "depthwise": ((960, 7, 7), 960, 3, {"pad": 1, "groups": 960}),
    "a long reduction": ((4000, 2, 2), 40, 1, {}),
    "many outputs": ((40, 3, 3), 4000, 1, {"leaky": True}),
}


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        *((name, STOCK) for name in UNUSUAL),
        ("a plane beyond 16 bits of stride", THIRTYTWO_BY_SIXTEEN),
        ("depthwise", THIRTYTWO_BY_SIXTEEN),
    ],
)
def test_unusual_shapes(name: str, accelerator: Accelerator) -> None:
    shape, outputs, kernel, options = UNUSUAL[name]
    unusual = conv(np.random.default_rng(6), "c", tensor("x", *shape), outputs, kernel, **options)
    check_program(accelerator, [unusual], ["x"], ["c.out"])


@pytest.mark.parametrize(
    "accelerator",
    [STOCK, HALF_BUFFERS, RECTANGULAR],
    ids=["stock", "half the buffers", "1x8x4"],
)
@pytest.mark.parametrize(("size", "kernel", "stride"), [(40, 40, 1), (64, 64, 1), (70, 50, 20)])
def test_a_mean_over_a_large_picture_is_tiled(
    accelerator: Accelerator, size: int, kernel: int, stride: int
) -> None:
    """One block of weights serves all taps, and the taps come in bands that fit the buffers."""
    rng = np.random.default_rng(7)
    source = tensor("x", 40, size, size)
    pool = conv(rng, "c", source, 40, kernel, stride=stride, groups=40)
    check_program(accelerator, [replace(pool, weight=np.ones_like(pool.weight))], ["x"], ["c.out"])
