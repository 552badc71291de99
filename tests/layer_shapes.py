"""Layer shapes of VTA's old test suite and of ResNet-18, and more; full-range random data."""

from __future__ import annotations

import zlib

import numpy as np

from vta_stages.layers.records import Conv, Epilogue, MaxPool, TensorSpec, TransposedConv

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
# extent, channels, stride; 16 channels per group, 3x3, padding 1
GROUPED = [
    (112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1),
    (28, 256, 2), (14, 512, 1), (14, 512, 2), (7, 1024, 1),
]  # fmt: skip
# extent, input channels, output channels; 4x4, stride 2, padding 1
TRANSPOSED = [(4, 1024, 512), (8, 512, 256), (16, 256, 128)]
DENSE = [(512, 1000), (256, 128)]
# extent, input channels, output channels, groups; 4x4, stride 2, padding 1
TRANSPOSED_GROUPS = [(8, 32, 64, 2), (13, 24, 12, 4)]
# extent, channels; the maximum over the whole picture
GLOBAL_POOLS = [(7, 512), (13, 70)]

SHAPES = (
    *RESNET_18,
    *(f"group-{extent}x{channels}-s{stride}" for extent, channels, stride in GROUPED),
    *(f"transposed-{extent}x{inputs}x{outputs}" for extent, inputs, outputs in TRANSPOSED),
    *(f"dense-{inputs}x{outputs}" for inputs, outputs in DENSE),
    *(f"transposed-{extent}x{ci}x{co}-g{groups}" for extent, ci, co, groups in TRANSPOSED_GROUPS),
    *(f"global-max-{extent}x{channels}" for extent, channels in GLOBAL_POOLS),
)


def layer(shape: str) -> Conv | TransposedConv | MaxPool:
    """Return the layer named ``shape``; input ``x``, output ``y``, the same for the same name."""
    rng = np.random.default_rng(zlib.crc32(shape.encode()))
    if shape in RESNET_18:
        extent, inputs, outputs, kernel, pad, stride = RESNET_18[shape]
        return _conv(rng, extent, inputs, outputs, kernel, pad, stride)
    at = SHAPES.index(shape) - len(RESNET_18)
    if at < len(GROUPED):
        extent, channels, stride = GROUPED[at]
        return _conv(rng, extent, channels, channels, 3, 1, stride, groups=channels // 16)
    at -= len(GROUPED)
    if at < len(TRANSPOSED):
        return _transposed(rng, *TRANSPOSED[at])
    at -= len(TRANSPOSED)
    if at < len(DENSE):
        inputs, outputs = DENSE[at]
        return _conv(rng, 1, inputs, outputs, 1, 0, 1)
    at -= len(DENSE)
    if at < len(TRANSPOSED_GROUPS):
        return _transposed(rng, *TRANSPOSED_GROUPS[at])
    extent, channels = GLOBAL_POOLS[at - len(TRANSPOSED_GROUPS)]
    return MaxPool(
        name="y",
        input=_tensor("x", channels, extent),
        output=_tensor("y", channels, 1),
        kernel=(extent, extent),
        stride=(extent, extent),
    )


def picture(tested: Conv | TransposedConv | MaxPool) -> np.ndarray:
    """Return random full-range int8[1, c, h, w]; pooled inputs have one maximum per channel."""
    source = tested.input
    rng = np.random.default_rng(source.channels * source.height)
    values = _int8(rng, 1, source.channels, source.height, source.width)
    if isinstance(tested, MaxPool):
        return np.minimum(values, _int8(rng, 1, source.channels, 1, 1))
    return values


def _transposed(rng, extent, inputs, outputs, groups=1) -> TransposedConv:
    return TransposedConv(
        name="y",
        input=_tensor("x", inputs, extent),
        output=_tensor("y", outputs, 2 * extent),
        weight=_int8(rng, inputs, outputs // groups, 4, 4),
        epilogue=_epilogue(rng, outputs, inputs // groups * 4),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
        groups=groups,
    )


def _conv(rng, extent, inputs, outputs, kernel, pad, stride, groups=1) -> Conv:
    return Conv(
        name="y",
        input=_tensor("x", inputs, extent),
        output=_tensor("y", outputs, (extent + 2 * pad - kernel) // stride + 1),
        weight=_int8(rng, outputs, inputs // groups, kernel, kernel),
        epilogue=_epilogue(rng, outputs, inputs // groups * kernel * kernel),
        stride=(stride, stride),
        padding=(pad, pad, pad, pad),
        groups=groups,
    )


def _tensor(name: str, channels: int, extent: int) -> TensorSpec:
    return TensorSpec(name=name, channels=channels, height=extent, width=extent)


def _int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _epilogue(rng: np.random.Generator, channels: int, products: int) -> Epilogue:
    """Scale the sum of ``products`` full-range products to int8, with a few values to clip."""
    middle = round(np.log2(np.sqrt(products) * 74 * 74 / 64))
    return Epilogue(
        bias=rng.integers(-5000, 5000, channels).astype(np.int32),
        shift=rng.integers(middle - 1, middle + 2, channels).astype(np.int32),
        low=-128,
        high=127,
    )
