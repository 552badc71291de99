"""The layer shapes of VTA's old test suite, with full-range data, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, check_program, conv, epilogue, int8, tensor

from vta_stages.accelerator import Accelerator
from vta_stages.layers import TransposedConv

pytestmark = pytest.mark.sim

# extent, input channels, output channels, kernel, padding, stride
RESNET_18 = {
    "C2": (56, 64, 64, 3, 1, 1),
    "C3": (56, 64, 128, 3, 1, 2),
    "C4": (56, 64, 128, 1, 0, 2),
    "C5": (28, 128, 128, 3, 1, 1),
    "C6": (28, 128, 256, 3, 1, 2),
    "C7": (28, 128, 256, 1, 0, 2),
    "C8": (14, 256, 256, 3, 1, 1),
    "C9": (14, 256, 512, 3, 1, 2),
    "C10": (14, 256, 512, 1, 0, 2),
    "C11": (7, 512, 512, 3, 1, 1),
}
# extent, channels, stride; 16 channels a group, 3x3, padding 1
GROUPED = [
    (112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1),
    (28, 256, 2), (14, 512, 1), (14, 512, 2), (7, 1024, 1),
]  # fmt: skip
# extent, input channels, output channels; 4x4, stride 2, padding 1
TRANSPOSED = [(4, 1024, 512), (8, 512, 256), (16, 256, 128)]
DENSE = [(512, 1000), (256, 128)]


@pytest.mark.parametrize("name", RESNET_18)
def test_resnet_18(name: str) -> None:
    extent, channels, outputs, kernel, pad, stride = RESNET_18[name]
    rng = np.random.default_rng(1)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, name, source, outputs, kernel, pad=pad, stride=stride)
    check_program(STOCK, [layer], ["x"], [layer.output.name])


@pytest.mark.parametrize(("extent", "channels", "stride"), GROUPED)
def test_group_convolutions(extent: int, channels: int, stride: int) -> None:
    rng = np.random.default_rng(2)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, "g", source, channels, 3, pad=1, stride=stride, groups=channels // 16)
    check_program(STOCK, [layer], ["x"], [layer.output.name])


@pytest.mark.parametrize(("extent", "channels", "outputs"), TRANSPOSED)
def test_transposed_convolutions(extent: int, channels: int, outputs: int) -> None:
    rng = np.random.default_rng(3)
    layer = TransposedConv(
        name="up",
        input=tensor("x", channels, extent, extent),
        output=tensor("y", outputs, 2 * extent, 2 * extent),
        weight=int8(rng, channels, outputs, 4, 4),
        epilogue=epilogue(rng, outputs, shift=12),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )
    check_program(STOCK, [layer], ["x"], ["y"])


@pytest.mark.parametrize(("channels", "outputs"), DENSE)
def test_dense(channels: int, outputs: int) -> None:
    rng = np.random.default_rng(4)
    layer = conv(rng, "dense", tensor("x", channels, 1, 1), outputs, 1)
    check_program(STOCK, [layer], ["x"], [layer.output.name])


@pytest.mark.parametrize("name", ["C2", "C8", "C11"])
@pytest.mark.parametrize(
    "accelerator",
    [
        Accelerator(revision="0.0.2"),
        Accelerator(block_in=32, block_out=32, wgt_buffer_bytes_log2=20),
        Accelerator(
            uop_buffer_bytes_log2=14,
            inp_buffer_bytes_log2=14,
            wgt_buffer_bytes_log2=17,
            acc_buffer_bytes_log2=16,
        ),
    ],
    ids=["0.0.2", "1x32", "half the buffers"],
)
def test_other_accelerators(accelerator: Accelerator, name: str) -> None:
    extent, channels, outputs, kernel, pad, stride = RESNET_18[name]
    rng = np.random.default_rng(5)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, name, source, outputs, kernel, pad=pad, stride=stride)
    check_program(accelerator, [layer], ["x"], [layer.output.name])


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


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_shapes(name: str) -> None:
    shape, outputs, kernel, options = UNUSUAL[name]
    layer = conv(np.random.default_rng(6), "c", tensor("x", *shape), outputs, kernel, **options)
    check_program(STOCK, [layer], ["x"], ["c.out"])
