"""Tensors between stages as arrays of their logical shape."""

from __future__ import annotations

import numpy as np
import pytest

from edgepipe.accuracy.devices import as_array
from edgepipe.bundle.manifest import FOLDS, Tensor, tensor_bytes
from vta_stages.accelerator import Accelerator
from vta_stages.isa.layout import pack_activation

ACCELERATOR = Accelerator()


@pytest.mark.parametrize("layout", FOLDS)
@pytest.mark.parametrize("channels", [3, 5, 20])
def test_a_tensor_in_blocks_is_read_by_channel_row_and_column(layout: str, channels: int) -> None:
    shape, factor = (1, channels, 8, 12), FOLDS[layout]
    values = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    folded = np.zeros((1, channels * factor**2, 8 // factor, 12 // factor), np.int8)
    for c, y, x in np.ndindex(shape[1:]):
        lane = (y % factor * factor + x % factor) * channels + c
        folded[0, lane, y // factor, x // factor] = values[0, c, y, x]
    content = pack_activation(ACCELERATOR, folded).tobytes()
    size = tensor_bytes(shape, "int8", layout, ACCELERATOR)
    tensor = Tensor(name="x", dtype="int8", shape=shape, layout=layout, bytes=size)
    assert len(content) == size
    np.testing.assert_array_equal(as_array(tensor, content, ACCELERATOR), values)
